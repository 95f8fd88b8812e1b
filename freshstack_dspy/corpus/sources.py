"""Where documents are: folders, installed packages, JSON Lines and rows in memory, as named files."""

import csv
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.records import SkipKind
from freshstack_dspy.rows import given_rows


class Skip(NamedTuple):
    """A reason not to index a file."""

    kind: SkipKind
    reason: str


LINK = Skip("link", "a symbolic link; links are not followed")


class TreeEntry(NamedTuple):
    """An entry of a source: a file, or something else."""

    path: str
    """Relative, with forward slashes."""
    size: int = 0
    """Bytes, as the source says."""
    skip: Skip | None = None
    """Why it cannot be read."""
    read: Callable[[int], bytes | Skip] | None = None
    """Reads the first bytes, up to a limit, or says why that cannot be done."""
    stamp: tuple[int, ...] | None = None
    """Size, times of change and number of a file on disk: where these are the same, so is the file.
    For a file in git the number is its hash."""


class Tree(NamedTuple):
    """What a source holds."""

    entries: Iterable[TreeEntry]
    """In any order; they can be read as long as the source is open."""
    revision: str | None = None
    of_files: bool = True
    """Whether a name says what a file is; that of a document in JSON Lines is only an id."""


def named_entry(path: str, size: int = 0, skip: Skip | None = None, **fields: Any) -> TreeEntry:
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
    return TreeEntry(shown, size, skip, **fields)


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


def _read_file(path: Path, most: int) -> bytes | Skip:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        return _unreadable(error)


def _unreadable(error: OSError) -> Skip:
    return Skip("unreadable", f"cannot be read: {error.strerror}")


# Folders


def folder_tree(path: Path) -> Tree:
    """Open a folder: the files below it, as they are on disk."""
    if not path.exists():
        raise SourceError(f"{path}: no such folder")
    if not path.is_dir():
        raise SourceError(
            f"{path}: a file, and not one that holds documents (.jsonl); name the folder "
            "that it is in, and unpack an archive first, as: unzip NAME.whl -d FOLDER"
        )
    if (path / "HEAD").is_file() and (path / "objects").is_dir():
        raise SourceError(
            f'{path}: a bare git repository; say which commit to read, as revision = "HEAD"'
        )
    return Tree(_walk(path))


def _walk(root: Path) -> Iterator[TreeEntry]:
    """List the files below a folder; hidden folders are not entered."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as listing:
                children = list(listing)
        except OSError as error:
            yield named_entry(folder, skip=_unreadable(error))
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                pending.append(path)
                continue
            try:
                at = child.stat(follow_symlinks=False)
            except OSError as error:  # it is gone, perhaps
                yield named_entry(path, skip=_unreadable(error))
                continue
            skip = LINK if child.is_symlink() else None
            if not skip and not child.is_file():
                skip = Skip("unreadable", "not a regular file")
            stamp = (at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino)
            read = partial(_read_file, root / path)
            yield named_entry(path, at.st_size, skip, read=read, stamp=stamp)


# Installed packages

_INSTALLERS_OWN = re.compile(
    r"(?:^|/)__pycache__/|(?:^|/)\.\./|"
    r"(?:^|/)[^/]+\.dist-info/(?:INSTALLER|REQUESTED|RECORD|direct_url\.json)$"
)
"""What installing adds to a distribution: it depends on how that was done."""


def package_tree(name: str) -> Tree:
    """Open an installed distribution: the files that were recorded, at its version."""
    try:
        package = distribution(name)
    except (PackageNotFoundError, ValueError):
        raise SourceError(
            f"package {name!r} is not installed next to this program; install it with: "
            f"pip install {name}"
        ) from None
    origin = json.loads(package.read_text("direct_url.json") or "{}")  # PEP 610
    if origin.get("dir_info", {}).get("editable"):
        folder = str(origin.get("url", "")).removeprefix("file://")
        raise SourceError(
            f"package {name!r} is installed in editable mode, so its files are not its own; "
            f"name its folder instead: path = {folder!r}"
        )
    record = package.read_text("RECORD")
    if record is None:
        raise SourceError(f"package {name!r} has no list of its files; name its folder as path")
    paths = {row[0].replace("\\", "/") for row in csv.reader(record.splitlines()) if row}
    root = Path(str(package.locate_file(""))).resolve()
    wanted = (path for path in sorted(paths) if not _INSTALLERS_OWN.search(path))
    return Tree((_recorded(root, path) for path in wanted), package.version)


def _recorded(root: Path, path: str) -> TreeEntry:
    file = root / path
    skip, size = None, 0
    try:
        if not file.parent.resolve().is_relative_to(root) or ".." in file.parts:
            skip = Skip("not_chosen", "outside of the folder of packages")
        elif file.is_symlink():
            skip = LINK
        else:
            size = file.stat().st_size
    except OSError as error:
        skip = _unreadable(error)
    shown = "/".join(part for part in path.split("/") if part not in ("", ".."))
    return named_entry(shown, size, skip, read=partial(_read_file, file))


# Documents that are lines of a JSON file, or rows in memory


class _Document(BaseModel):
    """What is read of a line; its other fields are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    path: Annotated[
        str,
        Field(min_length=1, validation_alias=AliasChoices("path", "id", "_id")),
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ]
    title: str | None = None
    text: str


def document_bytes(title: str | None, text: str) -> bytes:
    """Give the bytes that a document's chunks count in: its title, an empty line, its text."""
    title = (title or "").strip()
    return (f"{title}\n\n{text}" if title else text).encode()


@contextmanager
def documents_tree(source: Path | Sequence[dict[str, Any]]) -> Iterator[Tree]:
    """Open documents of JSON Lines or in memory; each is a file of `document_bytes`, by its id."""
    entries: list[TreeEntry] = []
    place_of: dict[str, str] = {}
    with TemporaryFile() as texts:

        def read(start: int, size: int, most: int) -> bytes:
            texts.seek(start)
            return texts.read(min(size, most))

        for place, document in _documents(source):
            first = place_of.setdefault(document.path, place)
            if first != place:
                raise SourceError(
                    f"{place}: the document {document.path!r} is already at {first}; each needs "
                    "an id of its own"
                )
            data = document_bytes(document.title, document.text)
            where = partial(read, texts.tell(), len(data))
            entries.append(named_entry(document.path, len(data), read=where))
            texts.write(data)
        yield Tree(entries, of_files=False)


def _documents(source: Path | Sequence[dict[str, Any]]) -> Iterator[tuple[str, _Document]]:
    place = ""
    try:
        if isinstance(source, Path):
            for number, line in read_lines(source):
                place = f"{source}:{number}"
                if line.strip():
                    yield place, _Document.model_validate_json(line)
            return
        for row in given_rows(source, "documents"):
            place = row.place
            yield place, _Document.model_validate(row.values)
    except ValidationError as error:
        raise SourceError(
            f"{place}: {first_fault(error)}; a document is "
            '{"id": "…", "title": "…", "text": "…"}; in a file, on one line, in UTF-8'
        ) from None
