"""An index on disk: each build writes a folder of its own, then the manifest that names it.

    ROOT/NAME/
        manifest.json   which version is current, and what it was made from
        .lock           held by the one who writes
        000007/         chunks.lance, bm25, lsa: written once, never changed

Replacing the manifest is what swaps versions. A version that somebody still reads stays until a
later build. SQLite's locks are used because they work on every system and end with their process.
"""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import Field, ValidationError

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.files import write_file
from freshstack_dspy.records import Record

SCHEMA_VERSION: Literal[5] = 5
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
MANIFEST = "manifest.json"
_VERSION = re.compile(r"\d{6}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_READERS = "readers.lock"
DIMENSIONS = 256
"""Of the `lsa` vectors, at most; a small corpus has fewer. 0: no `lsa` at all."""


class IndexedFile(NamedTuple):
    """A file of the corpus, as it was when its chunks were indexed."""

    source: str
    path: str
    sha256: str
    """Of the file's bytes, in hexadecimal."""
    encoding: str = "utf-8"
    """How they are read; see `SourceFile.encoding`."""


class VectorColumn(Record):
    """The vectors that one embedder made."""

    name: str
    identity: str
    """Everything that they depend on; see `Embedder.identity`."""
    dimensions: int = Field(ge=1)


class Manifest(Record):
    """What an index is made from, and what it holds."""

    schema_version: Literal[5] = SCHEMA_VERSION
    version: str
    """The folder of the current version."""
    fingerprint: str
    """SHA-256 of all that the rankings by `bm25` and `lsa` depend on."""
    dimensions: int
    """Of the `lsa` vectors, at most."""
    cut_by: str
    """How the chunks were cut, as whoever built the index put it."""
    files: tuple[IndexedFile, ...]
    """Those that the chunks are from; none where they were not named."""
    revisions: dict[str, str | None]
    """Of each source."""
    chunks: int
    tokens: int
    """Of all chunks."""
    terms: int
    """Different ones."""
    vectors: tuple[VectorColumn, ...]
    reused: dict[str, int]
    """For each embedder, how many vectors the last build took from the version before."""


def index_folder(root: Path, name: str) -> Path:
    """Give the folder of an index."""
    if not _NAME.fullmatch(name):
        raise IndexingError(
            f"an index cannot be called {name!r}; its name is that of a folder: letters, digits, "
            "dots, dashes and underscores, the first one a letter or digit"
        )
    return root / name


def only_index(path: Path) -> Path:
    """Give the folder of an index: this one, or the only one in it."""
    if (path / MANIFEST).is_file():
        return path
    found = sorted(child.parent for child in path.glob(f"*/{MANIFEST}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise IndexingError(f"{path}: no index here; build one: freshstack index CONFIG")
    raise IndexingError(
        f"{path}: several indexes here; open one of {', '.join(each.name for each in found)}"
    )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index."""
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes(), strict=False)
    except FileNotFoundError:
        raise IndexingError(f"{folder}: no index here; build it: freshstack index CONFIG") from None
    except ValidationError:
        raise IndexingError(
            f"{folder}: an index of another version of this program; build it again: "
            "freshstack index CONFIG"
        ) from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of an index: this commits."""
    write_file(folder / MANIFEST, manifest.model_dump_json(indent=1) + "\n")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process writes an index, then keep others waiting."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(_connected(folder / ".lock", timeout=1)) as lock:
            while not _locked(lock):  # short waits can be interrupted from the keyboard
                pass
            yield
    except OSError as error:
        raise IndexingError(f"{folder}: an index cannot be written here: {error}") from None


def new_version(folder: Path) -> Path:
    """Make the folder of a new version; for the one writer."""
    versions = [int(each.name) for each in folder.iterdir() if _VERSION.fullmatch(each.name)]
    version = folder / f"{max(versions, default=0) + 1:06}"
    version.mkdir()
    with closing(_connected(version / _READERS)) as lock:
        lock.execute("PRAGMA user_version = 1")  # a file that can be locked
    return version


def remove_old_versions(folder: Path, current: str) -> None:
    """Remove what is read no more; for the one writer."""
    for entry in sorted(folder.iterdir()):
        if _VERSION.fullmatch(entry.name) and entry.name != current:
            with closing(_connected(entry / _READERS)) as lock:
                if _locked(lock):
                    shutil.rmtree(entry, ignore_errors=True)


class Hold(NamedTuple):
    """A manifest whose version stays until `lock` is closed."""

    manifest: Manifest
    lock: sqlite3.Connection

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Hold the current version of an index."""
        for _ in range(10):  # a build may replace it just now
            manifest = read_manifest(folder)
            file = folder / manifest.version / _READERS
            if not file.exists():
                continue
            lock = _connected(file)
            try:
                lock.execute("BEGIN")
                lock.execute("SELECT * FROM sqlite_schema").fetchall()
                if file.exists():
                    return cls(manifest, lock)
            except sqlite3.OperationalError:  # just being removed
                pass
            lock.close()
        raise IndexingError(f"{folder}: a damaged index; build it again: freshstack index CONFIG")


def bytes_in(path: Path) -> int:
    """Add up the sizes of the files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _connected(file: Path, timeout: float = 0) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout, isolation_level=None, check_same_thread=False)


def _locked(lock: sqlite3.Connection) -> bool:
    """Try to take a lock for oneself."""
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
