"""Where an index is: in a folder, or in an object store. Each build writes a version of its own.

    ROOT/NAME/
        manifest.json   which version is current, and what it was made from
        .lock           held by the one who writes
        000007/         chunks.parquet, bm25, lsa, chunks.lance: written once, never changed

In an object store ROOT/NAME is a LanceDB database: of each version the table, and `manifest`, a
table of one row. Replacing the manifest is what swaps versions. The version before stays until the
next build, for those who still read it.

The manifest has a checksum of itself and of every file of a version, which is compared before the
file is read. Object stores have checksums of their own.
"""

import json
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.config import APPROXIMATE_ABOVE, DIMENSIONS, Lexical
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.files import Uri, path_or_uri, write_file
from freshstack_dspy.index.table import ChunkTable, connected, reaching
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.records import Record

SCHEMA_VERSION: Literal[10] = 10
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
MANIFEST, TABLE = "manifest.json", "chunks"
_MANIFEST = "manifest"
_MOST_TABLES = 1_000
_VERSION = re.compile(r"\d{6}")
_BUILD_IT = "build it: freshstack index CONFIG"
_ALWAYS_READ = 64 * 1024**2
"""Bytes. Reading larger files to check them would take longer than a search: they are checked
where their time of change is another than that of the build, as after a copy."""
_BLOCK = 1024**2


class Settings(NamedTuple):
    """How chunks are indexed; the words of `[index]`."""

    dimensions: int = DIMENSIONS
    """Of the `lsa` vectors, at most; a small corpus has fewer. 0: no `lsa` at all."""
    lexical: Lexical = "bm25s"
    approximate_above: int = APPROXIMATE_ABOVE
    languages: tuple[str, ...] = ENGLISH
    """By whose stems and stop words terms are made."""


class VectorColumn(Record):
    """The vectors that one embedder made."""

    name: str
    identity: str
    """Everything that they depend on; see `Embedder.identity`."""
    dimensions: int = Field(ge=1)


class FileSum(Record):
    """A file as it was written."""

    size: int
    modified: int
    """Nanoseconds since 1970."""
    crc32: int


class IndexManifest(Record):
    """What an index is made from, and what it holds."""

    schema_version: Literal[10] = SCHEMA_VERSION
    version: str
    """The current version."""
    before: str | None = None
    """The version that was current before it."""
    lexical: Lexical
    """What `bm25` is searched by."""
    languages: tuple[str, ...] = ENGLISH
    """By whose stems and stop words terms are made."""
    fingerprint: str
    """SHA-256 of all that the rankings by `bm25` and `lsa` depend on."""
    approximate: bool
    """Whether vectors have an approximate index."""
    content: str
    """SHA-256 of the chunks without their revisions; see `ChunkSums`."""
    corpus: str
    """And with them, as the manifest of a collection has it of its corpus."""
    revisions: dict[str, str | None]
    """Of each source."""
    chunks: int
    tokens: int
    """Of all chunks."""
    vectors: tuple[VectorColumn, ...]
    files: dict[str, FileSum] = Field(default_factory=dict)
    """The files of the current version, by their path in its folder."""


class Folder:
    """An index on this machine. SQLite's locks work on every system and end with their process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def manifest(self) -> IndexManifest:
        """Read the manifest."""
        try:
            manifest = _read((self.path / MANIFEST).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise IndexingError(f"{self.path}: no index here; {_BUILD_IT}") from None
        if manifest is None or not self.folder(manifest.version).is_dir():
            raise _damaged(self.path)
        return manifest

    def check(self, manifest: IndexManifest, part: str = "") -> None:
        """Raise an error if a file of an index, or of one part of it, is not as it was written."""
        folder = self.folder(manifest.version)
        for name, written in manifest.files.items():
            if name.startswith(part) and not _is_as_written(folder / name, written):
                raise IndexingError(
                    f"{folder / name}: damaged: it is not as it was written; build the index "
                    "again: freshstack index CONFIG"
                )

    def sums(self, version: str) -> dict[str, FileSum]:
        """Sum up the files of a version that was just written."""
        folder = self.folder(version)
        return {
            path.relative_to(folder).as_posix(): _sum_of(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def exists(self) -> bool:
        """Whether an index is there, of whatever version."""
        return (self.path / MANIFEST).exists()

    def folder(self, version: str) -> Path:
        """The files of a version."""
        return self.path / version

    def table(self, version: str) -> ChunkTable:
        """The table of a version."""
        return ChunkTable(self.folder(version), TABLE)

    def commit(self, manifest: IndexManifest) -> None:
        """Replace the manifest."""
        write_file(self.path / MANIFEST, _written(manifest))

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Wait until no other process writes an index, then keep others waiting."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = sqlite3.connect(self.path / ".lock", timeout=1, isolation_level=None)
            with closing(lock):
                while not _locked(lock):  # short waits can be interrupted from the keyboard
                    pass
                try:
                    yield
                finally:
                    self._remove_others()
        except (OSError, sqlite3.Error) as error:
            raise IndexingError(
                f"{self.path}: an index cannot be written here: {error}; check the disk's free "
                "space and the folder's permissions"
            ) from None

    def new_version(self) -> str:
        """Make the folder of a new version."""
        name = _next(entry.name for entry in self.path.iterdir())
        self.folder(name).mkdir()
        return name

    def _remove_others(self) -> None:
        """Remove old versions, and those that were not finished, as on a full disk."""
        with suppress(IndexingError):  # of a manifest that cannot be read
            kept = _kept(self.manifest()) if self.exists() else set[str]()
            for entry in self.path.iterdir():
                if _VERSION.fullmatch(entry.name) and entry.name not in kept:
                    shutil.rmtree(entry, ignore_errors=True)


class Database:
    """An index in an object store, which has no locks: of two builds at once one fails."""

    def __init__(self, path: Uri) -> None:
        self.path = path

    def manifest(self) -> IndexManifest:
        """Read the manifest."""
        if not self.exists():
            raise IndexingError(f"{self.path}: no index here; {_BUILD_IT}")
        manifest = self._read()
        if manifest is None or manifest.version not in self._tables():
            raise _damaged(self.path)
        return manifest

    def check(self, manifest: IndexManifest, part: str = "") -> None:
        """Nothing: the object store finds damage by itself."""

    def sums(self, version: str) -> dict[str, FileSum]:
        """Nothing, as above."""
        return {}

    def exists(self) -> bool:
        """Whether an index is there, of whatever version."""
        return _MANIFEST in self._tables()

    def table(self, version: str) -> ChunkTable:
        """The table of a version."""
        return ChunkTable(self.path, version)

    def commit(self, manifest: IndexManifest) -> None:
        """Replace the manifest, unless another build has done so since this one began."""
        import pyarrow as pa

        tables = self._tables()
        now = self._read() if _MANIFEST in tables else None
        if now and now.version not in _kept(manifest):
            raise IndexingError(
                f"{self.path}: another build has finished here meanwhile; build it again"
            )
        with reaching(self.path):
            database = connected(self.path)
            written = pa.table({_MANIFEST: [_written(manifest)]})
            mode = "overwrite" if _MANIFEST in tables else "create"
            database.create_table(_MANIFEST, data=written, mode=mode)
            for name in tables:
                if _VERSION.fullmatch(name) and name < min(_kept(manifest)):
                    database.drop_table(name)

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Nobody waits: the number of a version is taken by who is first to write its table."""
        yield

    def new_version(self) -> str:
        """Name a new version."""
        return _next(self._tables())

    def _tables(self) -> list[str]:
        with reaching(self.path):
            return list(connected(self.path).list_tables(limit=_MOST_TABLES).tables)

    def _read(self) -> IndexManifest | None:
        with reaching(self.path):
            rows = connected(self.path).open_table(_MANIFEST).to_arrow()
        return _read(rows[_MANIFEST][0].as_py())


Place = Folder | Database


def place_of(path: Path | str) -> Place:
    """Where an index is, by its folder or URI."""
    path = path_or_uri(path)
    return Database(path) if isinstance(path, Uri) else Folder(path)


def _written(manifest: IndexManifest) -> str:
    """A manifest as text, with a checksum of itself."""
    fields = manifest.model_dump(mode="json")
    return json.dumps({"crc32": _crc32_of(fields), **fields}, indent=1) + "\n"


def _read(written: bytes | str) -> IndexManifest | None:
    """Read a manifest; None if it is damaged, or of another version."""
    try:
        fields = json.loads(written)
        if fields.pop("crc32", None) != _crc32_of(fields):
            return None
        return IndexManifest.model_validate(fields, strict=False)
    except (ValueError, AttributeError, RecursionError):  # no JSON, or no object
        return None


def _crc32_of(fields: object) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def _sum_of(path: Path) -> FileSum:
    status = path.stat()
    crc32 = _crc32(path, status.st_size, status.st_mtime_ns)
    return FileSum(size=status.st_size, modified=status.st_mtime_ns, crc32=crc32)


def _is_as_written(path: Path, written: FileSum) -> bool:
    try:
        now = path.stat()
        same = (now.st_size, now.st_mtime_ns) == (written.size, written.modified)
        return (same and now.st_size > _ALWAYS_READ) or _sum_of(path).crc32 == written.crc32
    except OSError:
        return False


@lru_cache(maxsize=4096)
def _crc32(path: Path, _size: int, _modified: int) -> int:
    """Sum up a file; a process reads one that has not changed once."""
    crc32 = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc32 = zlib.crc32(block, crc32)
    return crc32


def _damaged(path: Path | Uri) -> IndexingError:
    return IndexingError(
        f"{path}: a damaged index, or one of another version of this program; {_BUILD_IT}"
    )


def _kept(manifest: IndexManifest) -> set[str]:
    return {each for each in (manifest.version, manifest.before) if each}


def _next(names: Iterable[str]) -> str:
    versions = [int(name) for name in names if _VERSION.fullmatch(name)]
    return f"{max(versions, default=0) + 1:06}"


def _locked(lock: sqlite3.Connection) -> bool:
    """Try to take a lock for oneself."""
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
