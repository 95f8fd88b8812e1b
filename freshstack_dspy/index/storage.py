"""Where indexes are: in a folder, or in an object store. Each is named by what it is made from.

    ROOT/NAME/
        current      the key of the index that is opened
        .lock        held by the process that writes
        5f1c…/       index.json, chunks.parquet, bm25, lsa; where embedders or `lance` need a table,
                     chunks.lance: written once, never changed

In an object store ROOT/NAME is a LanceDB database: each index is a table named by its key, and
`indexes` has a row for each that was finished, the current one last. The index before the current
one stays, for those who still read it.

`index.json` has a checksum of itself and of every file of its index, which is compared before the
file is read. Object stores have checksums of their own.
"""

import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.config import APPROXIMATE_ABOVE, DIMENSIONS, K1, B, Lexical
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.files import Uri, locked, path_or_uri, replace_folder, write_file
from freshstack_dspy.index.table import ChunkTable, connected, reaching
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.records import Record

SCHEMA_VERSION: Literal[15] = 15
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
TABLE = "chunks"
_MANIFEST, _CURRENT, _INDEXES = "index.json", "current", "indexes"
_MOST_TABLES = 1_000
_KEY = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}\..*")
"""An index, or what a killed process left of one."""
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
    k1: float = K1
    b: float = B


class VectorColumn(Record):
    """The vectors that one embedder made."""

    name: str
    identity: str
    """Everything that they depend on; see `Embedder.identity`."""
    dimensions: int = Field(ge=1)
    sha256: str = ""
    """The hash of the vectors that a hosted embedder gave: others may be recorded under the same identity."""


class IndexManifest(Record):
    """What an index is made from, and what it holds."""

    schema_version: Literal[15] = SCHEMA_VERSION
    key: str
    """The hash of settings, chunks and embedders that names the index."""
    terms: str
    """The hash of settings and chunks: all that the rankings by `bm25` and `lsa` depend on."""
    lexical: Lexical
    """What `bm25` is searched by."""
    languages: tuple[str, ...] = ENGLISH
    approximate: bool
    """Whether vectors have an approximate index."""
    revisions: dict[str, str | None]
    """The revision of each source."""
    chunks: int
    tokens: int
    """The tokens of all chunks."""
    vectors: tuple[VectorColumn, ...]
    files: dict[str, tuple[int, int, int]] = Field(default_factory=dict)
    """By path in the folder of the index: bytes, time of change in nanoseconds, and CRC-32."""


Fill = Callable[[ChunkTable, Path | None], IndexManifest]
"""Writes the table and, on this machine, the other files of a new index, and says what it holds."""


class Folder:
    """Indexes on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, key: str = "") -> IndexManifest:
        """Read the manifest of an index, by default the current one."""
        try:
            key = key or (self.path / _CURRENT).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(self.path) from None
        try:
            return _decoded((self.path / key / _MANIFEST).read_text(encoding="utf-8"))
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

    def write(self, key: str, fill: Fill) -> IndexManifest:
        """Write a new index, which appears when all its files are there."""
        try:
            with replace_folder(self.path / key) as folder:
                manifest = fill(ChunkTable(folder, TABLE), folder)
                files = (path for path in sorted(folder.rglob("*")) if path.is_file())
                sums = {path.relative_to(folder).as_posix(): _sum_of(path) for path in files}
                manifest = manifest.model_copy(update={"files": sums})
                write_file(folder / _MANIFEST, _encoded(manifest))
        except CollectionError as error:
            raise IndexingError(str(error)) from None
        return manifest

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
            raise _missing(self.path)
        with reaching(self.path):
            rows = connected(self.path).open_table(_INDEXES).to_arrow()[_INDEXES].to_pylist()
        try:
            manifests = [each for each in map(_decoded, rows) if key in ("", each.key)]
        except ValueError:
            raise _damaged(self.path) from None
        if not manifests or manifests[-1].key not in tables:
            raise _damaged(self.path)
        return manifests[-1]

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

    def write(self, key: str, fill: Fill) -> IndexManifest:
        """Write a new index, which counts from when it is chosen."""
        if key in self.tables():  # one that was not finished
            with reaching(self.path):
                connected(self.path).drop_table(key)
        return fill(self.table(key), None)

    def choose(self, manifest: IndexManifest) -> None:
        """Make an index the current one, and remove all but the one that was."""
        import pyarrow as pa

        before, tables = find(self), self.tables()
        row = pa.table({_INDEXES: [_encoded(manifest)]})
        with reaching(self.path):
            database = connected(self.path)
            if _INDEXES in tables:
                database.open_table(_INDEXES).add(row)
            else:
                database.create_table(_INDEXES, data=row)
            for name in tables:
                if _is_old(name, manifest, before):
                    database.drop_table(name)


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
    in_use = {now.key, before.key if before else ""}
    return _KEY.fullmatch(name) is not None and name not in in_use


def _encoded(manifest: IndexManifest) -> str:
    """A line of JSON, and one with its checksum."""
    line = manifest.model_dump_json()
    return f"{line}\n{zlib.crc32(line.encode())}\n"


def _decoded(written: str) -> IndexManifest:
    """A manifest; a ValueError if it is damaged, or of another version."""
    line, _, crc32 = written.removesuffix("\n").rpartition("\n")
    if crc32 != str(zlib.crc32(line.encode())):
        raise ValueError("damaged")
    return IndexManifest.model_validate_json(line)


def _sum_of(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    size, modified = status.st_size, status.st_mtime_ns
    return size, modified, _crc32(path, size, modified)


def _is_as_written(path: Path, written: tuple[int, int, int]) -> bool:
    try:
        status = path.stat()
        if status.st_size > _ALWAYS_READ and (status.st_size, status.st_mtime_ns) == written[:2]:
            return True
        return _sum_of(path)[2] == written[2]
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


def _missing(path: Path | Uri) -> IndexingError:
    return IndexingError(f"{path}: no index here; build it: freshstack index CONFIG")


def _damaged(path: Path | Uri) -> IndexingError:
    return IndexingError(
        f"{path}: a damaged index, or one of another version of this program; build it: "
        "freshstack index CONFIG"
    )
