"""What all places of documents have in common: named files that can be read."""

import os
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pathspec import GitIgnoreSpec

from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import SkipKind


class Skip(NamedTuple):
    """A reason not to index a file."""

    kind: SkipKind
    reason: str


LINK = Skip("link", "a symbolic link; links are not followed")


class TreeEntry(NamedTuple):
    """An entry of a folder: a file, or something else."""

    path: str
    """Relative, with forward slashes."""
    size: int = 0
    """Bytes, as the place says."""
    skip: Skip | None = None
    """Why it cannot be read."""
    key: Any = None
    """By which the tree finds its content."""
    stamp: tuple[int, ...] | None = None
    """Size, times of change and number of a file on disk: where these are the same, so is it. Of a
    file in git the number is its hash."""


class FileTree(ABC):
    """A set of files."""

    revision: str | None = None
    of_files: bool = True
    """Whether a name says what a file is; that of a document in a JSON file is only an id."""

    @abstractmethod
    def entries(self) -> Iterator[TreeEntry]:
        """List the entries, in any order."""

    @abstractmethod
    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Read the first bytes of a file, up to a limit, or say why it cannot be read."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what reading needed."""


def named_entry(path: str, size: int = 0, skip: Skip | None = None, key: Any = None) -> TreeEntry:
    """Make the entry of a path, in which bytes that are not UTF-8 are surrogates (PEP 383).

    A path becomes part of ids, and ids become words in lines of run and qrels files; so paths
    that could break a line are not read. They are shown with escapes.
    """
    decoded = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if decoded != path:
        skip = Skip("unreadable", "its name is not UTF-8")
    shown = decoded if decoded.isprintable() else "".join(map(_visible, decoded))
    if shown != decoded:
        skip = Skip("unreadable", "its name holds a line break or control character")
    return TreeEntry(shown, size, skip, key)


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


def without_hidden(entries: Iterable[TreeEntry]) -> Iterator[TreeEntry]:
    """Give one entry, a hidden one, for all that is under a name that begins with a dot."""
    hidden: set[str] = set()
    for entry in entries:
        names = entry.path.split("/")
        dots = (n for n, name in enumerate(names) if name.startswith(".") and name.strip("."))
        first = next(dots, None)
        if first is None:
            yield entry
            continue
        path = "/".join(names[: first + 1])
        if path not in hidden:
            hidden.add(path)
            yield TreeEntry(path, skip=Skip("hidden", "hidden"))


class Folder(FileTree):
    """The files below a folder, as they are on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            raise SourceError(f"{path}: no such folder")
        if not path.is_dir():
            raise SourceError(
                f"{path}: a file, and not one that holds documents (.jsonl); name the folder "
                "that it is in, and unpack an archive first, as: unzip NAME.whl -d FOLDER"
            )
        if (path / "HEAD").is_file() and (path / "objects").is_dir():
            raise SourceError(
                f"{path}: a bare git repository; say which of its states to read, "
                'as revision = "HEAD"'
            )

    def entries(self) -> Iterator[TreeEntry]:
        """List the files below the folder; hidden folders are not entered."""
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                with os.scandir(self._path / folder) as listing:
                    children = list(listing)
            except OSError as error:
                yield named_entry(folder, skip=not_readable(error))
                continue
            for child in children:
                path = f"{folder}/{child.name}" if folder else child.name
                if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                    pending.append(path)
                    continue
                skip = LINK if child.is_symlink() else None
                if not skip and not child.is_file():
                    skip = Skip("unreadable", "not a regular file")
                at = child.stat(follow_symlinks=False)
                stamp = (at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino)
                yield named_entry(path, at.st_size, skip, key=path)._replace(stamp=stamp)

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Read a file."""
        return read_file(self._path / entry.key, most)


def read_file(path: Path, most: int) -> bytes | Skip:
    """Read the first bytes of a file, up to a limit."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        return not_readable(error)


def not_readable(error: OSError) -> Skip:
    """Give the system's reason against reading a file."""
    return Skip("unreadable", f"cannot be read: {error.strerror}")


class Glob(NamedTuple):
    """A glob as in `.gitignore`, compared with the path from the root of the corpus.

    What matches a folder matches everything below it. Case counts.
    """

    text: str
    spec: GitIgnoreSpec

    def matches(self, path: str) -> bool:
        """Whether a path, relative and with forward slashes, matches."""
        return self.spec.match_file(path)


def glob_of(text: str) -> Glob:
    """Compile a glob; raise ValueError for an invalid one, as `[z-a]`."""
    literal = text.rstrip("/")
    escaped = f"\\{literal}" if literal.startswith(("!", "#")) else literal
    try:
        return Glob(text, GitIgnoreSpec.from_lines([escaped]))
    except (ValueError, re.error) as error:
        raise ValueError(f"{text!r} is not a glob: {error}") from None
