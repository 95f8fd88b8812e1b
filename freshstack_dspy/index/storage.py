"""An index on disk: each build writes a folder of its own, then the manifest that names it.

    ROOT/NAME/
        manifest.json   which version is current, and what it was made from
        .lock           held by the one who writes
        000007/         table, bm25, lsa: written once, never changed

Replacing the manifest is what swaps versions. The version before stays until the next build, for
those who still read it. SQLite's locks work on every system and end with their process.
"""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.files import write_file
from freshstack_dspy.records import Record

SCHEMA_VERSION: Literal[7] = 7
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
MANIFEST = "manifest.json"
_VERSION = re.compile(r"\d{6}")
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


class IndexManifest(Record):
    """What an index is made from, and what it holds."""

    schema_version: Literal[7] = SCHEMA_VERSION
    version: str
    """The folder of the current version."""
    fingerprint: str
    """SHA-256 of all that the rankings by `bm25` and `lsa` depend on."""
    cut_by: str
    """How the chunks were cut, as whoever built the index put it."""
    files: tuple[IndexedFile, ...]
    """Those that the chunks are from; none where they were not named."""
    revisions: dict[str, str | None]
    """Of each source."""
    chunks: int
    tokens: int
    """Of all chunks."""
    vectors: tuple[VectorColumn, ...]


def read_manifest(folder: Path) -> IndexManifest:
    """Read the manifest of an index."""
    build_it = "build it: freshstack index CONFIG"
    try:
        manifest = IndexManifest.model_validate_json((folder / MANIFEST).read_bytes(), strict=False)
    except (FileNotFoundError, NotADirectoryError):
        raise IndexingError(f"{folder}: no index here; {build_it}") from None
    except ValidationError:
        manifest = None
    if manifest is None or not (folder / manifest.version).is_dir():
        raise IndexingError(
            f"{folder}: a damaged index, or one of another version of this program; {build_it}"
        )
    return manifest


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Replace the manifest of an index: this commits."""
    write_file(folder / MANIFEST, manifest.model_dump_json(indent=1) + "\n")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process writes an index, then keep others waiting."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(folder / ".lock", timeout=1, isolation_level=None)) as lock:
            while not _locked(lock):  # short waits can be interrupted from the keyboard
                pass
            yield
    except OSError as error:
        raise IndexingError(
            f"{folder}: an index cannot be written here: {error}; check the disk's free space and "
            "the folder's permissions"
        ) from None


def new_version(folder: Path) -> Path:
    """Make the folder of a new version; for the one writer."""
    versions = [int(each.name) for each in folder.iterdir() if _VERSION.fullmatch(each.name)]
    version = folder / f"{max(versions, default=0) + 1:06}"
    version.mkdir()
    return version


def remove_versions(folder: Path, *, but: set[str]) -> None:
    """Remove all other versions; for the one writer."""
    for entry in folder.iterdir():
        if _VERSION.fullmatch(entry.name) and entry.name not in but:
            shutil.rmtree(entry, ignore_errors=True)


def _locked(lock: sqlite3.Connection) -> bool:
    """Try to take a lock for oneself."""
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
