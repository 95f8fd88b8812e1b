"""The LanceDB table of an index: chunks, content hashes and one vector column for each embedder.

The same chunks are in a Parquet file beside it, from which they are read: LanceDB takes two seconds
to import, and is needed for vectors only.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.records import Chunk

_NAME = "chunks"
_ROWS_AT_ONCE = 4096
_ROWS_OF_GROUP = 512
_OF_CHUNK = tuple(
    "chunk_id source path start_byte end_byte text tokens encoding title url headings".split()
)


class ChunkTable:
    """A table on disk; a row's number is its place in the order of the chunks' ids."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _table(self) -> Any:
        return _connected(self._folder).open_table(_NAME)

    def _file(self) -> Any:
        """The Parquet file beside the table; None in an index of before there was one."""
        import pyarrow.parquet as pq

        path = _beside(self._folder)
        return pq.ParquetFile(path) if path.exists() else None

    @staticmethod
    def create(
        folder: Path,
        chunks: Sequence[Chunk],
        hashes: Sequence[str],
        vectors: Mapping[str, NDArray[np.float32]],
    ) -> None:
        """Write a table of chunks in the order of their ids; vectors are of shape (chunks, dimensions)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        types: dict[str, Any] = dict.fromkeys(("start_byte", "end_byte", "tokens"), pa.int64())
        types |= {"text": pa.large_string(), "headings": pa.list_(pa.string())}
        columns = {"row": pa.array(range(len(chunks)))}
        for name in _OF_CHUNK:
            values = [getattr(chunk, name) for chunk in chunks]
            columns[name] = pa.array(values, types.get(name, pa.string()))
        columns["content_sha256"] = pa.array(hashes)
        plain = pa.table(columns)
        pq.write_table(plain, _beside(folder), row_group_size=_ROWS_OF_GROUP, compression="zstd")
        for name, matrix in vectors.items():
            flat = pa.array(matrix.ravel())
            columns[column_of(name)] = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
        _connected(folder).create_table(_NAME, data=pa.table(columns))

    def values(self, column: str) -> list[str]:
        """Read a column of texts, in the order of the rows."""
        if (file := self._file()) is not None:
            texts: list[str] = file.read([column])[column].to_pylist()
            return texts
        found = self._table.search().select(["row", column]).to_arrow().sort_by("row")
        values: list[str] = found[column].to_pylist()
        return values

    def matrix(self, embedder: str) -> NDArray[np.float32]:
        """Read all vectors of an embedder, shape (rows, dimensions)."""
        column = column_of(embedder)
        found = self._table.search().select(["row", column]).to_arrow()
        vectors = found[column].combine_chunks().flatten().to_numpy().reshape(len(found), -1)
        return np.asarray(vectors[np.argsort(found["row"].to_numpy())])

    def chunks(self, rows: Sequence[int], revisions: Mapping[str, str | None]) -> Iterator[Chunk]:
        """Read chunks, in the order of these rows."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = rows[start : start + _ROWS_AT_ONCE]
            by_row = {values.pop("row"): values for values in self._taken(block).to_pylist()}
            for row in block:
                yield Chunk(**by_row[row], revision=revisions.get(by_row[row]["source"]))

    def _taken(self, rows: Sequence[int]) -> Any:
        """Rows, in any order; of the file only the groups are read that have them."""
        columns = ["row", *_OF_CHUNK]
        if (file := self._file()) is None:
            return self._table.take_offsets(list(rows)).select(columns).to_arrow()
        groups = sorted({row // _ROWS_OF_GROUP for row in rows})
        first = {group: place * _ROWS_OF_GROUP for place, group in enumerate(groups)}
        places = (first[row // _ROWS_OF_GROUP] + row % _ROWS_OF_GROUP for row in rows)
        return file.read_row_groups(groups, columns).take(list(places))


def column_of(embedder: str) -> str:
    """Name the column of an embedder's vectors; Lance takes no dot in a name."""
    return f"vector_{embedder.replace('.', '~')}"


def _beside(folder: Path) -> Path:
    return folder.with_name("chunks.parquet")


def _connected(folder: Path) -> Any:
    import lancedb

    return lancedb.connect(folder)
