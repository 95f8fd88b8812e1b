"""What all places of documents have in common: named files that can be read."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from freshstack_dspy.sources.documents.skips import Skip

_LONGEST_PATH = 4096
"""Bytes. No system opens a longer one; a path becomes part of the id of every chunk."""
_SHOWN = 100


class Entry(NamedTuple):
    """One file, or a thing that is none."""

    path: str
    """Relative, with forward slashes."""
    size: int = 0
    """Bytes, as the place says."""
    skip: Skip | None = None
    """Why it cannot be read."""
    key: str = ""
    """By which the tree finds its content."""


class Wanted(NamedTuple):
    """A file to read."""

    entry: Entry
    most: int
    """Bytes to read at most: what the place says of its size need not be true."""


class FileTree(Protocol):
    """A set of files."""

    revision: str | None
    of_files: bool
    """Whether a name says what a file is; that of a document in a JSON file is only an id."""

    def entries(self) -> Iterator[Entry]:
        """List the entries, in any order; a hidden folder is one entry.

        Raises:
            SourceError: The place is damaged.
        """
        ...

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read files, one at a time: for each the bytes, or why it cannot be read.

        Raises:
            SourceError: The whole tree cannot be read.
        """
        ...

    def close(self) -> None:
        """Let go of what reading needed."""
        ...


def named_entry(raw_path: bytes, size: int = 0, skip: Skip | None = None, key: str = "") -> Entry:
    r"""Make the entry of a path as the system has it.

    A path becomes part of ids, and ids become words in lines of run and qrels files; so paths
    that could break a line, have no text at all, or are very long, are not read. They are shown
    with escapes, and the long ones shortened.
    """
    if len(raw_path) > _LONGEST_PATH:
        skip = Skip("unreadable", f"its path is longer than {_LONGEST_PATH:,} bytes")
        ends = (raw_path[:_SHOWN], raw_path[-_SHOWN:])
        start, end = (part.decode("utf-8", "ignore") for part in ends)
        return Entry("".join(map(_visible, f"{start}…{end}")), size, skip, key)
    path = raw_path.decode("utf-8", "backslashreplace")
    if path.encode() != raw_path:
        skip = Skip("unreadable", "its name is not UTF-8")
    plain = path.isascii() and path.isprintable()
    shown = path if plain else "".join(map(_visible, path))
    if shown != path:
        skip = Skip("unreadable", "its name holds a line break or control character")
    return Entry(shown, size, skip, key)


def without_hidden(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Give one entry, a hidden one, for all that lies under a name that begins with a dot."""
    hidden: set[str] = set()
    for entry in entries:
        names = entry.path.split("/")
        hides = [name.startswith(".") and name not in (".", "..") for name in names]
        first = hides.index(True) if any(hides) else None
        if first is None:
            yield entry
            continue
        path = "/".join(names[: first + 1])
        if path not in hidden:
            hidden.add(path)
            yield Entry(path, skip=Skip("hidden", "hidden"))


def not_readable(error: OSError) -> Skip:
    """Say what the system says against reading a file."""
    return Skip("unreadable", f"cannot be read: {error.strerror}")


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character
