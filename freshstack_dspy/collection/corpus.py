"""The chunks of a collection: one Parquet file, read when first needed and checked then."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from freshstack_dspy.collection.jsonl import canonical_json, canonical_line, first_fault
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Chunk
from freshstack_dspy.sources.regular import check_regular

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
