"""The LanceDB table of a corpus: chunks, content hashes and one vector column per embedder."""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.rows import content_sha256
from freshstack_dspy.records import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = "chunks"
_AT_ONCE = 4096
_QUOTED = re.compile(r"'(?:[^']|'')*'")
COLUMNS = (
    "chunk_id",
    "source",
    "path",
    "start_byte",
    "end_byte",
    "text",
    "tokens",
    "encoding",
    "title",
    "url",
    "content_sha256",
    "file_sha256",
)
"""What a row holds beside its vectors, and what a filter may speak of."""
_OF_CHUNK = COLUMNS[:10]


class TableRows(NamedTuple):
    """Rows to write."""

    chunks: Sequence[Chunk]
    file_hashes: Sequence[str | None]
    vectors: Mapping[str, NDArray[np.float32]]
    """By embedder, shape (chunks, dimensions)."""


class ChunkTable:
    """One version of a table on disk."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder, self.version = folder, version

    @cached_property
    def _table(self) -> Any:
        with readable():
            table = _lancedb().connect(self._folder).open_table(_NAME)
            table.checkout(self.version)
        return table

    @classmethod
    def create(
        cls, folder: Path, widths: Mapping[str, int], blocks: Iterable[TableRows]
    ) -> "ChunkTable":
        """Write a table into a folder.

        Args:
            folder: Where none is yet.
            widths: Each embedder's number of dimensions.
            blocks: The rows.
        """
        import pyarrow as pa

        schema = _schema(widths)
        data = pa.RecordBatchReader.from_batches(schema, (_batch(schema, rows) for rows in blocks))
        table = _lancedb().connect(folder).create_table(_NAME, data=data, schema=schema)
        return cls(folder, int(table.version))

    def patched(
        self, deleted: Sequence[str], widths: Mapping[str, int], blocks: Iterable[TableRows]
    ) -> "ChunkTable":
        """Write another version, on top of this one; only for a `sole_writer`.

        Args:
            deleted: Ids of chunks that are in it no more.
            widths: As for `create`.
            blocks: Rows to append.
        """
        import pyarrow as pa

        schema = _schema(widths)
        with readable():
            table = _lancedb().connect(self._folder).open_table(_NAME)
            if int(table.version) != self.version:  # of an update that died before its end
                table.checkout(self.version)
                table.restore()
            if deleted:
                table.delete(f"chunk_id IN ({', '.join(map(_quoted, deleted))})")
            batches = [_batch(schema, rows) for rows in blocks]
            if batches:
                table.add(pa.Table.from_batches(batches, schema))
        return ChunkTable(self._folder, int(table.version))

    def index_vectors(self, embedder: str, rows: int) -> "ChunkTable":
        """Make an approximate index of a column of vectors; gives the version that has it."""
        from lancedb.index import IvfFlat

        column, table = column_of(embedder), self._table
        table.checkout_latest()
        partitions = max(1, min(4096, round(rows**0.5)))
        table.create_index(
            column, config=IvfFlat(distance_type="cosine", num_partitions=partitions)
        )
        return ChunkTable(self._folder, int(table.version))

    def row_ids(self) -> dict[str, int]:
        """Give LanceDB's row number for each chunk id."""
        with readable():
            found = self._table.search().select(["chunk_id"]).with_row_id(True).to_arrow()
        return dict(zip(found["chunk_id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    def rows_where(self, where: str) -> NDArray[np.uint64]:
        """Give the row numbers that an SQL filter lets through.

        Raises:
            IndexingError: The filter cannot be understood.
        """
        if ";" in _QUOTED.sub("", where):  # the parser would drop what follows it
            raise _no_filter(where, "it holds a semicolon")
        try:
            with readable():
                query = self._table.search().where(where).select(["chunk_id"])
                found = query.with_row_id(True).to_arrow()
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).partition("Valid fields")[0].split())[:300]
            raise _no_filter(where, reason) from None
        return np.asarray(found["_rowid"].to_numpy())

    def chunks(
        self, row_ids: NDArray[np.uint64], revisions: Mapping[str, str | None]
    ) -> Iterator[Chunk]:
        """Read chunks, in the order of these row numbers."""
        for start in range(0, len(row_ids), _AT_ONCE):
            wanted = row_ids[start : start + _AT_ONCE]
            found = self._taken(wanted, _OF_CHUNK).to_pylist()
            by_id = {row.pop("_rowid"): row for row in found}
            for row_id in wanted.tolist():
                row = by_id[row_id]
                yield Chunk(**row, revision=revisions.get(row["source"]))

    def vectors(
        self, embedder: str, row_ids: NDArray[np.uint64], width: int
    ) -> NDArray[np.float32]:
        """Read vectors, in the order of these row numbers; shape (row numbers, width)."""
        wanted, places = np.unique(row_ids, return_inverse=True)  # rows of equal content share one
        vectors = np.empty((len(wanted), width), np.float32)
        for start in range(0, len(wanted), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            found = self._taken(wanted[block], (column_of(embedder),))
            values = found[column_of(embedder)].combine_chunks().flatten().to_numpy()
            vectors[block] = values.reshape(len(found), width)[
                np.argsort(found["_rowid"].to_numpy())
            ]
        return vectors[places]

    def _taken(self, row_ids: NDArray[np.uint64], columns: Sequence[str]) -> "pa.Table":
        with readable():
            query = self._table.take_row_ids(row_ids.tolist()).select(list(columns))
            found = query.with_row_id().to_arrow()
        if len(found) != len(row_ids):
            raise ValueError(f"the table lacks {len(row_ids) - len(found)} rows of the index")
        return found

    def near(
        self,
        query: NDArray[np.float32],
        embedder: str,
        depth: int,
        where: str | None,
        share: float = 1,
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Give about the nearest rows to a vector, by the approximate index: numbers, vectors.

        Args:
            query: Shape (dimensions,).
            embedder: Whose column is searched.
            depth: How many rows to give at most.
            where: An SQL filter.
            share: Of the rows that it lets through; the fewer, the further must be searched.
        """
        column, probes = column_of(embedder), math.ceil(PROBES / max(share, 1e-3))
        with readable():
            search = self._table.search(query, vector_column_name=column)
            search = search.distance_type("cosine").nprobes(probes).limit(depth)
            if where is not None:
                search = search.where(where, prefilter=True)
            found = search.select([column, "_distance"]).with_row_id(True).to_arrow()
        values = found[column].combine_chunks().flatten().to_numpy()
        return found["_rowid"].to_numpy(), values.reshape(len(found), len(query))


PROBES = 32
"""Partitions of an approximate index that are searched for a vector."""


def column_of(embedder: str) -> str:
    """Name the column of an embedder's vectors; Lance takes no dot in a name."""
    return f"vector_{embedder.replace('.', '~')}"


def _schema(widths: Mapping[str, int]) -> "pa.Schema":
    import pyarrow as pa

    numbers = {"start_byte", "end_byte", "tokens"}
    fields = [
        pa.field(name, pa.int64() if name in numbers else pa.string(), nullable=False)
        for name in COLUMNS
    ]
    fields[COLUMNS.index("text")] = pa.field("text", pa.large_string(), nullable=False)
    for optional in ("url", "file_sha256"):
        fields[COLUMNS.index(optional)] = pa.field(optional, pa.string())
    for embedder, width in widths.items():
        fields.append(pa.field(column_of(embedder), pa.list_(pa.float32(), width), nullable=False))
    return pa.schema(fields)


def _batch(schema: "pa.Schema", rows: TableRows) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [
        pa.array([getattr(chunk, name) for chunk in rows.chunks], schema.field(name).type)
        for name in _OF_CHUNK
    ]
    columns.append(pa.array([content_sha256(chunk) for chunk in rows.chunks]))
    columns.append(pa.array(rows.file_hashes, pa.string()))
    columns += [
        pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        for vectors in rows.vectors.values()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def readable() -> Iterator[None]:
    """Make an ordinary error of a panic in LanceDB, whose class cannot be imported."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "RustPanic":
            raise
        raise RuntimeError(f"LanceDB cannot read its files: {error}") from error


def _lancedb() -> ModuleType:
    """Import LanceDB without the warnings its Rust half prints, which only this variable stops."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    import lancedb

    module: ModuleType = lancedb
    return module


def _no_filter(where: str, reason: str) -> IndexingError:
    return IndexingError(
        f"where = {where!r} is no filter for this index ({reason}); it is SQL on the columns "
        f"{', '.join(COLUMNS)}, as: path LIKE '%.md' AND tokens > 50"
    )
