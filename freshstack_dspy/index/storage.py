"""Where indexes are: in a folder, or in an object store. Each is named by what it is made from.

    ROOT/NAME/
        current      the key of the index that is opened
        .lock        held by the one who writes
        5f1c…/       index.json, chunks.parquet, bm25, lsa, chunks.lance: written once, never changed

In an object store ROOT/NAME is a LanceDB database: each index is a table named by its key, and
`indexes` has a row for each that was finished, the current one last. The index before the current
one stays, for those who still read it.

`index.json` has a checksum of itself and of every file of its index, which is compared before the
file is read. Object stores have checksums of their own.
"""

import json
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.config import APPROXIMATE_ABOVE, DIMENSIONS, Lexical
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.files import Uri, locked, path_or_uri, replace_folder, write_file
from freshstack_dspy.index.table import ChunkTable, connected, reaching
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.records import Record

SCHEMA_VERSION: Literal[11] = 11
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
TABLE = "chunks"
_MANIFEST, _CURRENT, _INDEXES = "index.json", "current", "indexes"
_MOST_TABLES = 1_000
_OURS = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}\..*|\d{6}")
"""Indexes, what a killed process left of one, and the numbered versions of earlier releases."""
_BUILD_IT = "build it: freshstack index CONFIG"
_ALWAYS_READ = 64 * 1024**2
"""Bytes. Reading larger files to check them would take longer than a search: they are checked
where their time of change is another than that of the build, as after a copy."""
_BLOCK = 1024**2


class Settings(NamedTuple):
    """How chunks are indexed; the words of `[index]`."""

    dimensions: int = DIMENSIONS
    """The most dimensions of the `lsa` vectors; a small corpus has fewer. 0: no `lsa` at all."""
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
    sha256: str = ""
    """The hash of the vectors that a hosted embedder gave: others may be recorded under the same identity."""


class FileSum(Record):
    """A file as it was written."""

    size: int
    modified: int
    """Nanoseconds since 1970."""
    crc32: int


class IndexManifest(Record):
    """What an index is made from, and what it holds."""

    schema_version: Literal[11] = SCHEMA_VERSION
    key: str
    """The hash of settings, chunks and embedders that names the index."""
    terms: str
    """The hash of settings and chunks: all that the rankings by `bm25` and `lsa` depend on."""
    lexical: Lexical
    """What `bm25` is searched by."""
    languages: tuple[str, ...] = ENGLISH
    """By whose stems and stop words terms are made."""
    approximate: bool
    """Whether vectors have an approximate index."""
    corpus: str
    """SHA-256 of the chunks, as the manifest of a collection has it."""
    revisions: dict[str, str | None]
    """The revision of each source."""
    chunks: int
    tokens: int
    """The tokens of all chunks."""
    vectors: tuple[VectorColumn, ...]
    files: dict[str, FileSum] = Field(default_factory=dict)
    """By their path in the folder of the index."""


class NewIndex(NamedTuple):
    """Where the parts of an index are written."""

    table: ChunkTable
    folder: Path | None
    """None in an object store."""

    def finished(self, manifest: IndexManifest) -> IndexManifest:
        """Write the manifest, with the sums of the files, once all are written."""
        if self.folder is None:
            return manifest
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        sums = {path.relative_to(self.folder).as_posix(): _sum_of(path) for path in files}
        manifest = manifest.model_copy(update={"files": sums})
        write_file(self.folder / _MANIFEST, _written(manifest))
        return manifest


class Folder:
    """Indexes on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, key: str = "") -> IndexManifest:
        """Read the manifest of an index, by default the current one."""
        try:
            key = key or (self.path / _CURRENT).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            raise IndexingError(f"{self.path}: no index here; {_BUILD_IT}") from None
        try:
            return _read((self.path / key / _MANIFEST).read_bytes())
        except (OSError, ValueError):
            raise _damaged(self.path) from None

    def check(self, manifest: IndexManifest, part: str = "") -> None:
        """Raise an error if a file of an index, or of one part of it, is not as it was written."""
        folder = self.path / manifest.key
        for name, written in manifest.files.items():
            if name.startswith(part) and not _is_as_written(folder / name, written):
                raise IndexingError(
                    f"{folder / name}: damaged: it is not as it was written; build the index "
                    "again: freshstack index CONFIG"
                )

    def table(self, key: str) -> ChunkTable:
        """The table of an index."""
        return ChunkTable(self.path / key, TABLE)

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Wait until no other process writes here, then keep others waiting."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / ".lock", wait=True):
                yield
        except OSError as error:
            raise IndexingError(
                f"{self.path}: an index cannot be written here: {error.strerror or error}; check "
                "the disk's free space and the folder's permissions"
            ) from None

    @contextmanager
    def new(self, key: str) -> Iterator[NewIndex]:
        """Give the place of a new index, which appears when the block ends well."""
        try:
            with replace_folder(self.path / key) as folder:
                yield NewIndex(ChunkTable(folder, TABLE), folder)
        except CollectionError as error:
            raise IndexingError(str(error)) from None

    def choose(self, manifest: IndexManifest) -> None:
        """Make an index the current one, and remove all but the one that was."""
        before = find(self)
        write_file(self.path / _CURRENT, manifest.key)
        for entry in self.path.iterdir():
            if _is_old(entry.name, manifest, before):
                shutil.rmtree(entry, ignore_errors=True)


class Database:
    """Indexes in an object store, which has no locks: tables of one key hold the same."""

    def __init__(self, path: Uri) -> None:
        self.path = path

    def read(self, key: str = "") -> IndexManifest:
        """Read the manifest of an index, by default the current one."""
        tables = self.tables()
        if _INDEXES not in tables:
            raise IndexingError(f"{self.path}: no index here; {_BUILD_IT}")
        try:
            finished = [_read(row) for row in self._finished()]
        except ValueError:
            raise _damaged(self.path) from None
        wanted = [each for each in finished if each.key == key] if key else finished
        if not wanted or wanted[-1].key not in tables:
            raise _damaged(self.path)
        return wanted[-1]

    def check(self, manifest: IndexManifest, part: str = "") -> None:
        """Nothing: the object store finds damage by itself."""

    def table(self, key: str) -> ChunkTable:
        """The table of an index."""
        return ChunkTable(self.path, key)

    def tables(self) -> list[str]:
        """The names of all tables."""
        with reaching(self.path):
            return list(connected(self.path).list_tables(limit=_MOST_TABLES).tables)

    def only_writer(self) -> AbstractContextManager[None]:
        """Nobody waits: who writes the same key writes the same."""
        return nullcontext()

    @contextmanager
    def new(self, key: str) -> Iterator[NewIndex]:
        """Give the place of a new index; it counts from when it is chosen."""
        if key in self.tables():  # one that was not finished
            with reaching(self.path):
                connected(self.path).drop_table(key)
        yield NewIndex(self.table(key), None)

    def choose(self, manifest: IndexManifest) -> None:
        """Make an index the current one, and remove all but the one that was."""
        import pyarrow as pa

        before, tables = find(self), self.tables()
        row = pa.table({_INDEXES: [_written(manifest)]})
        with reaching(self.path):
            database = connected(self.path)
            if _INDEXES in tables:
                database.open_table(_INDEXES).add(row)
            else:
                database.create_table(_INDEXES, data=row)
            for name in tables:
                if _is_old(name, manifest, before):
                    database.drop_table(name)

    def _finished(self) -> list[str]:
        with reaching(self.path):
            rows = connected(self.path).open_table(_INDEXES).to_arrow()
        return [str(row) for row in rows[_INDEXES].to_pylist()]


Place = Folder | Database


def place_of(path: Path | str) -> Place:
    """Where indexes are, by their folder or URI."""
    path = path_or_uri(path)
    return Database(path) if isinstance(path, Uri) else Folder(path)


def find(place: Place, key: str = "") -> IndexManifest | None:
    """Find an index that is whole, by default the current one; nothing is taken from another."""
    try:
        manifest = place.read(key)
        place.check(manifest)
    except IndexingError:
        return None
    return manifest


def _is_old(name: str, now: IndexManifest, before: IndexManifest | None) -> bool:
    kept = {now.key, before.key if before else ""}
    return _OURS.fullmatch(name) is not None and name not in kept


def _written(manifest: IndexManifest) -> str:
    """A manifest as text, with a checksum of itself."""
    fields = manifest.model_dump(mode="json")
    return json.dumps({"crc32": _crc32_of(fields), **fields}, indent=1) + "\n"


def _read(written: bytes | str) -> IndexManifest:
    """Read a manifest; a ValueError if it is damaged, or of another version."""
    try:
        fields = json.loads(written)
        crc32 = fields.pop("crc32", None)
    except (AttributeError, RecursionError):  # no object
        raise ValueError("no object") from None
    if crc32 != _crc32_of(fields):
        raise ValueError("damaged")
    return IndexManifest.model_validate(fields, strict=False)


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
