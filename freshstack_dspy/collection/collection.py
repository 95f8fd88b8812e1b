"""The judged collection, as it stands on disk."""

import difflib
import gc
import hashlib
import heapq
import os
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic import ValidationError

from freshstack_dspy.collection.contents import RECORD_FILES, Contents, RecordFile, check_references
from freshstack_dspy.collection.counts import count
from freshstack_dspy.collection.manifest import MANIFEST_FILE, Manifest, read_manifest
from freshstack_dspy.collection.slices import Slices, check_any, slices_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import (
    canonical_json,
    canonical_line,
    check_regular,
    decode_records,
    first_fault,
    standing_folder,
)
from freshstack_dspy.records import Chunk, LicenceFile, Record, SkippedFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from freshstack_dspy.measures.qrels import NuggetQrels

CORPUS_FILE = "corpus.parquet"
_ROWS = 4096
"""Rows in a row group, and rows read at a time."""


def corpus_schema() -> "pa.Schema":
    """Give the Arrow schema of the corpus: the fields of `Chunk`, in their order."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("chunk_id", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("path", pa.string(), nullable=False),
            pa.field("start_byte", pa.int64(), nullable=False),
            pa.field("end_byte", pa.int64(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("tokens", pa.int64(), nullable=False),
            pa.field("revision", pa.string()),
            pa.field("encoding", pa.string(), nullable=False),
            pa.field("title", pa.string(), nullable=False),
            pa.field("url", pa.string()),
        ]
    )


def sorted_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Put chunks into the order of the corpus: by chunk_id, by code point.

    Raises:
        CollectionError: Two chunks share an id.
    """
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    for one, other in pairwise(ordered):
        if one.chunk_id == other.chunk_id:
            raise CollectionError(f"{CORPUS_FILE}: chunk {one.chunk_id!r} stands twice; keep one")
    return ordered


def corpus_sha256(chunks: Iterable[Chunk]) -> str:
    """Hash chunks as the JSON Lines they would be: Parquet's bytes depend on who writes them."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(canonical_line(chunk).encode("utf-8"))
    return digest.hexdigest()


def write_rows(path: Path, schema: "pa.Schema", rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of plain values as Parquet, the same rows always to the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(rows):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


class Corpus:
    """The chunks of a collection on disk.

    The ids are read first and alone; the texts when one is first asked for, and all of them are
    then checked against the hash of the manifest.
    """

    def __init__(self, path: Path, sha256: str) -> None:
        self._path = path
        self._sha256 = sha256

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of every chunk id, in the order of the file.

        Raises:
            CollectionError: The file is missing, is no such Parquet, or its ids do not ascend.
        """
        ids: list[str] = []
        for batch in self._read(["chunk_id"]).to_batches():
            ids += _plain(batch.column(0), self._path)
        for one, other in pairwise(ids):
            if one >= other:
                raise CollectionError(f"{self._path}: chunk {other!r} is not after {one!r}")
        return {chunk_id: row for row, chunk_id in enumerate(ids)}

    def __iter__(self) -> Iterator[Chunk]:
        """Give all chunks, by chunk_id.

        Raises:
            CollectionError: The file is missing, damaged or not that of the manifest.
        """
        for batch in self._checked.to_batches(_ROWS):
            for row in _plain(batch, self._path):
                yield self._chunk(row)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk.

        Raises:
            CollectionError: There is no such chunk, or the file is not that of the manifest.
        """
        row = self.rows.get(chunk_id)
        if row is None:
            raise CollectionError(f"{self._path}: there is no chunk {chunk_id!r}")
        return self._chunk(_plain(self._checked.slice(row, 1), self._path)[0])

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The length in tokens of every chunk that has a text, by id, in the order of the file.

        The length of one whose text an imported corpus lacks is not 0 but unknown. The file is read in pieces, and checked as it is for the texts; none of these is kept.

        Raises:
            CollectionError: The file is missing, damaged or not that of the manifest.
        """
        if "_checked" in vars(self):
            columns = self._checked.select(["chunk_id", "text", "tokens"])
            return dict(_lengths(_plain(columns, self._path)))
        digest = hashlib.sha256()
        lengths: dict[str, int] = {}
        with self._opened() as file:
            for batch in file.iter_batches(_ROWS):
                rows = _plain(batch, self._path)
                for row in rows:
                    digest.update(f"{canonical_json(row)}\n".encode())
                lengths.update(_lengths(rows))
        self._compare(digest.hexdigest())
        return lengths

    @cached_property
    def _checked(self) -> "pa.Table":
        table = self._read()
        digest = hashlib.sha256()
        for batch in table.to_batches(_ROWS):
            for row in _plain(batch, self._path):
                digest.update(f"{canonical_json(row)}\n".encode())
        self._compare(digest.hexdigest())
        return table

    def _compare(self, sha256: str) -> None:
        if sha256 != self._sha256:
            raise CollectionError(
                f"{self._path}: the chunks are not those that the manifest was written for; "
                "get the collection again or rebuild it"
            )

    def _read(self, columns: Sequence[str] | None = None) -> "pa.Table":
        with self._opened() as file:
            return file.read(columns=columns)

    @contextmanager
    def _opened(self) -> "Iterator[pq.ParquetFile]":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            check_regular(self._path)
            with pq.ParquetFile(self._path) as file:
                if not file.schema_arrow.equals(corpus_schema()):
                    raise CollectionError(
                        f"{self._path}: the columns are not those of a corpus: "
                        f"{', '.join(file.schema_arrow.names)}"
                    )
                yield file
        except FileNotFoundError:
            raise CollectionError(f"{self._path}: the file is missing") from None
        except (pa.ArrowException, OSError) as error:
            raise CollectionError(
                f"{self._path}: cannot be read as Parquet: {_one_line(error)}"
            ) from None

    def _chunk(self, row: dict[str, Any]) -> Chunk:
        try:
            return Chunk.model_validate(row)
        except ValidationError as error:
            raise CollectionError(f"{self._path}: not a Chunk: {first_fault(error)}") from None


def _lengths(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    return ((row["chunk_id"], row["tokens"]) for row in rows if row["text"])


def _plain(values: "pa.Array | pa.RecordBatch | pa.Table", path: Path) -> list[Any]:
    """Give Arrow values as Python's; Arrow itself does not look whether text is UTF-8."""
    try:
        plain: list[Any] = values.to_pylist()
    except UnicodeDecodeError as error:
        raise CollectionError(f"{path}: a text is not UTF-8: {error}") from None
    return plain


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class ChunkLengths(Mapping[str, int]):
    """The length in tokens of every chunk of a corpus that has a text, by chunk id.

    Few measures need it, so the corpus is read only if one of them does.

    Args:
        corpus: The chunks.

    Raises:
        CollectionError: When something is asked: the corpus is missing, damaged or not that of the
            manifest.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        return self._corpus.lengths[chunk_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.lengths)

    def __len__(self) -> int:
        return len(self._corpus.lengths)

    def __repr__(self) -> str:
        """Say what it is and read nothing: the qrels that hold it are printed in tests."""
        return "ChunkLengths(...)"


_RECORDS = tuple(file.name for file in RECORD_FILES)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Read records in half the time: there are many, and no cycle among them to be found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, kw_only=True)
class Collection(Contents):
    """A judged collection: its records, its manifest and its chunks.

    Two collections are equal when their records and manifests are.

    Attributes:
        manifest: What it is, how it was made, and the hashes of its files.
        corpus: The chunks; read from disk when first needed.
    """

    manifest: Manifest
    corpus: Corpus = field(compare=False, repr=False)

    @classmethod
    @_without_garbage_collection()
    def load(cls, path: Path | str) -> Self:
        """Read and check a collection; the texts of its chunks are read and checked later.

        Args:
            path: Its folder.

        Raises:
            CollectionError: In one line, where a file is missing, of another schema version,
                damaged or not that of the manifest, or where an id leads nowhere.
        """
        folder = standing_folder(Path(os.path.realpath(path)))
        manifest = read_manifest(folder)
        corpus = Corpus(folder / CORPUS_FILE, _hash_of(CORPUS_FILE, folder, manifest))
        records: dict[str, Any] = {
            file.name: _read_records(folder, file, manifest) for file in RECORD_FILES
        }
        threshold = manifest.scale.threshold
        collection = cls(**records, threshold=threshold, manifest=manifest, corpus=corpus)
        try:
            check_references(collection, corpus.rows.keys(), manifest.scale)
        except CollectionError as error:
            raise CollectionError(f"{folder}: {error}") from None
        if count(collection, len(corpus.rows), manifest.counts.rejected) != manifest.counts:
            raise CollectionError(f"{folder / MANIFEST_FILE}: counts are not those of the files")
        return collection

    @classmethod
    def unread(cls, path: Path, manifest: Manifest) -> Self:
        """Give a collection whose records are read when one of them is first asked for.

        They are checked as by `load`, which then raises its errors.

        Args:
            path: Its folder.
            manifest: As it stands there.
        """
        corpus = Corpus(path / CORPUS_FILE, _hash_of(CORPUS_FILE, path, manifest))
        collection = object.__new__(cls)
        threshold = manifest.scale.threshold
        vars(collection).update(manifest=manifest, corpus=corpus, threshold=threshold, _unread=path)
        return collection

    def read_skipped(self) -> tuple[SkippedFile, ...]:
        """Give the skipped files, and of an unread collection read nothing else.

        Raises:
            CollectionError: The file is missing, damaged or not that of the manifest.
        """
        return cast("tuple[SkippedFile, ...]", self._read_alone("skipped"))

    def read_licences(self) -> tuple[LicenceFile, ...]:
        """Give the licence files, and of an unread collection read nothing else.

        Raises:
            CollectionError: As for `read_skipped`.
        """
        return cast("tuple[LicenceFile, ...]", self._read_alone("licences"))

    def _read_alone(self, name: str) -> tuple[Record, ...]:
        path = vars(self).get("_unread")
        if path is None:
            records: tuple[Record, ...] = vars(self)[name]
            return records
        (file,) = (file for file in RECORD_FILES if file.name == name)
        return _read_records(path, file, self.manifest)

    if not TYPE_CHECKING:  # for a type checker, any name at all would now be an attribute

        def __getattr__(self, name: str) -> Any:
            """Read the records of an unread collection."""
            path = vars(self).get("_unread")
            if path is None or name not in _RECORDS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            loaded = type(self).load(path)
            if loaded.manifest != self.manifest:
                raise CollectionError(f"{path}: another collection stands here by now; load that")
            vars(self).update({record: vars(loaded)[record] for record in _RECORDS})
            return vars(self)[name]

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.manifest.name

    @property
    def recipe(self) -> str:
        """The recipe that built it."""
        return self.manifest.recipe

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks of the corpus, by chunk_id.

        Raises:
            CollectionError: The corpus is not that of the manifest.
        """
        return iter(self.corpus)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk of the corpus.

        Raises:
            CollectionError: There is no such chunk, or the corpus is not that of the manifest.
        """
        return self.corpus.chunk(chunk_id)

    def query_ids(self, slices: Slices = None) -> tuple[str, ...]:
        """List the queries with nuggets in some slices, ascending.

        Args:
            slices: A name (`supported`, `all`, or a slice's) or several slices; None: `supported`,
                the queries with at least one supported nugget.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        return self.queries_in(slices_of(slices))

    def qrels(self, slices: Slices = None) -> "NuggetQrels":
        """Give the judgments of these queries as the measures read them.

        A query is measured on its supported nuggets.
        The lengths of chunks are read only if a measure asks for one.

        Args:
            slices: As in `query_ids`; `answerable` is the filter of the FreshStack paper.

        Raises:
            CollectionError: A name is not that of a slice, or no query is in these slices.
        """
        check_any(self, slices)
        qrels = self.qrels_of(slices_of(slices), ChunkLengths(self.corpus))
        if self.manifest.recipe in _JUDGED_CHUNKS_ONLY:
            return qrels
        return replace(qrels, chunk_ids=self.corpus.rows.keys())


_JUDGED_CHUNKS_ONLY = ("import:nuggetizer", "import:crux")
"""Recipes whose corpus is not all that runs were made on."""


def _hash_of(name: str, folder: Path, manifest: Manifest) -> str:
    try:
        return manifest.files[name]
    except KeyError:
        raise CollectionError(f"{folder / MANIFEST_FILE}: files has no hash of {name}") from None


def _read_records(folder: Path, file: RecordFile, manifest: Manifest) -> tuple[Record, ...]:
    path = folder / file.filename
    try:
        check_regular(path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise CollectionError(f"{path}: the file is missing") from None
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
    # Read before hashed: a line that was mistyped is named by its number.
    records = decode_records(data, file.record, path)
    if hashlib.sha256(data).hexdigest() != _hash_of(file.filename, folder, manifest):
        raise CollectionError(
            f"{path}: not the file that the manifest was written for; "
            "get the collection again or rebuild it"
        )
    return records


_NAMED = 3
"""How many ids a message names."""
_COMPARED = 200
"""How many ids are compared letter by letter: of a corpus, it would take seconds for all."""


def nearest_ids(wrong: str, ids: Iterable[str]) -> list[str]:
    """Give the ids most like a wrong one, the most alike first; none where none is like it.

    Of many ids, those are compared that share the longest beginning or end with it.
    """
    backwards = wrong[::-1]

    def unlike(id_: str) -> tuple[int, str]:
        return -max(_shared(id_, wrong), _shared(id_[::-1], backwards)), id_

    return difflib.get_close_matches(wrong, heapq.nsmallest(_COMPARED, ids, key=unlike), n=_NAMED)


def named_nearest(wrong: str, ids: Ids[str], listed: str) -> str:
    """Say which ids are the nearest to a wrong one, or where all are listed if none is like it."""
    if near := nearest_ids(wrong, ids):
        return f"the nearest are {', '.join(map(repr, near))}"
    return f"none is like it; {listed} lists them all"


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    differing: Iterator[int] = (
        place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b
    )
    return next(differing, min(len(one), len(other)))
