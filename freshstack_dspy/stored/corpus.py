"""The chunks of a collection on disk, as Parquet."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from freshstack_dspy.corpus.parquet import ROWS, ChunkFile

if TYPE_CHECKING:
    import pyarrow as pa

CORPUS_FILE = "corpus.parquet"


def write_rows(
    file: Path | BinaryIO, schema: "pa.Schema", rows: Iterable[dict[str, Any]], group: int = ROWS
) -> None:
    """Write rows of plain values as Parquet, the same rows always to the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, group)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


class ChunkLengths(Mapping[str, int]):
    """The lengths of chunks in tokens, where they have a text; few measures need them."""

    def __init__(self, corpus: ChunkFile) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        row = self._corpus.ids.row(chunk_id)
        if row is None or not (tokens := int(self._corpus.tokens[row])):
            raise KeyError(chunk_id)
        return tokens

    def __iter__(self) -> Iterator[str]:
        tokens = self._corpus.tokens
        return (chunk_id for row, chunk_id in enumerate(self._corpus.ids) if tokens[row])

    def __len__(self) -> int:
        return int((self._corpus.tokens > 0).sum())

    def __repr__(self) -> str:
        """Say what it is and read nothing: the qrels that hold it are printed."""
        return "ChunkLengths(...)"
