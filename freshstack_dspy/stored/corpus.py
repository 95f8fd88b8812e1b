"""The chunks of a collection on disk, as Parquet."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import canonical_line
from freshstack_dspy.records import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

CORPUS_FILE = "corpus.parquet"
_ROWS = 4096
"""Rows in a row group, and rows read at a time."""


def corpus_schema() -> "pa.Schema":
    """Give the Arrow schema of the corpus: the fields of `Chunk`, in their order."""
    import pyarrow as pa

    integers = dict.fromkeys(("start_byte", "end_byte", "tokens"), pa.int64())
    types: dict[str, Any] = {**integers, "headings": pa.list_(pa.string())}
    fields = [
        pa.field(name, types.get(name, pa.string()), nullable=name in ("revision", "url"))
        for name in Chunk.model_fields
    ]
    return pa.schema(fields)


def sorted_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Put chunks into the order of the corpus: by chunk_id, by code point."""
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    for one, other in pairwise(ordered):
        if one.chunk_id == other.chunk_id:
            raise CollectionError(f"{CORPUS_FILE}: chunk {one.chunk_id!r} is there twice")
    return ordered


def corpus_sha256(chunks: Iterable[Chunk]) -> str:
    """Hash chunks as the JSON Lines they would be: Parquet's bytes depend on who writes them."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(canonical_line(chunk).encode("utf-8"))
    return digest.hexdigest()


def write_rows(file: Path | BinaryIO, schema: "pa.Schema", rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of plain values as Parquet, the same rows always to the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


class Corpus:
    """The chunks of a collection on disk: ids are read first and alone, texts when asked for.

    Its methods raise a `CollectionError` where the file is missing or is no such Parquet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: pa.Table | None = None

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Self:
        """Hold chunks in memory."""
        import pyarrow as pa

        corpus = cls(Path(CORPUS_FILE))
        rows = [chunk.model_dump() for chunk in chunks]
        corpus._held = pa.Table.from_pylist(rows, schema=corpus_schema())
        return corpus

    @cached_property
    def file_sha256(self) -> str | None:
        """SHA-256 of the file as it is; None of chunks in memory."""
        if self._held is not None or not self._path.is_file():
            return None
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of every chunk id, in the order of the file."""
        ids = self._read(["chunk_id"])["chunk_id"].to_pylist()
        return {chunk_id: row for row, chunk_id in enumerate(ids)}

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The length in tokens of every chunk that has a text; of others it is not known."""
        columns = self._read(["chunk_id", "text", "tokens"])
        return {row["chunk_id"]: row["tokens"] for row in columns.to_pylist() if row["text"]}

    def __iter__(self) -> Iterator[Chunk]:
        """Give all chunks, by chunk_id."""
        for batch in self._table.to_batches(_ROWS):
            yield from map(Chunk.model_validate, batch.to_pylist())

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk."""
        row = self.rows.get(chunk_id)
        if row is None:
            raise CollectionError(f"{self._path}: there is no chunk {chunk_id!r}")
        return Chunk.model_validate(self._table.slice(row, 1).to_pylist()[0])

    @cached_property
    def _table(self) -> "pa.Table":
        return self._read()

    def _read(self, columns: Sequence[str] | None = None) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._held is not None:
            return self._held if columns is None else self._held.select(columns)
        try:
            return pq.ParquetFile(self._path).read(columns=columns)
        except FileNotFoundError:
            raise CollectionError(f"{self._path}: the file is missing") from None
        except (pa.ArrowException, OSError) as error:
            fault = " ".join(str(error).split())
            raise CollectionError(f"{self._path}: cannot be read as Parquet: {fault}") from None


class ChunkLengths(Mapping[str, int]):
    """The lengths of a corpus' chunks in tokens; few measures need them, so they are read late."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        return self._corpus.lengths[chunk_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.lengths)

    def __len__(self) -> int:
        return len(self._corpus.lengths)

    def __repr__(self) -> str:
        """Say what it is and read nothing: the qrels that hold it are printed."""
        return "ChunkLengths(...)"
