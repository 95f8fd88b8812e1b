"""The LanceDB table of a corpus: chunks, content hashes and one vector column per embedder."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.records import Chunk

_NAME = "chunks"
_VECTORS = "lsa"
_HASH = "content_sha256"


class StoredRows(NamedTuple):
    """What a table holds."""

    version: int
    chunks: list[Chunk]
    vectors: NDArray[np.float32]
    """Shape (chunks, dimensions)."""


def content_sha256(chunk: Chunk) -> str:
    """Hash a chunk's text."""
    return hashlib.sha256(chunk.text.encode("utf-8")).hexdigest()


def write_table(folder: Path, chunks: Sequence[Chunk], vectors: NDArray[np.float32]) -> int:
    """Create the table in a folder; give its version."""
    import pyarrow as pa

    fields = [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("start_byte", pa.int64(), nullable=False),
        pa.field("end_byte", pa.int64(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("revision", pa.string()),
    ]
    columns = [pa.array([getattr(chunk, f.name) for chunk in chunks], f.type) for f in fields]
    fields.append(pa.field(_HASH, pa.string(), nullable=False))
    columns.append(pa.array([content_sha256(chunk) for chunk in chunks]))
    width = vectors.shape[1]
    fields.append(pa.field(_VECTORS, pa.list_(pa.float32(), width), nullable=False))
    columns.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width))
    data = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    table = _lancedb().connect(folder).create_table(_NAME, data=data)
    return int(table.version)


def read_table(folder: Path) -> StoredRows:
    """Read the newest version of the table into memory.

    Raises:
        ValueError, RuntimeError, OSError, KeyError: It is missing or damaged; the libraries below
            have no error in common.
    """
    with _panics_told():
        table = _lancedb().connect(folder).open_table(_NAME)
        data = table.to_arrow()
    width = data.schema.field(_VECTORS).type.list_size
    vectors = data[_VECTORS].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    rows = data.drop_columns([_HASH, _VECTORS]).to_pylist()
    return StoredRows(
        version=int(table.version),
        chunks=[Chunk.model_validate(row) for row in rows],
        vectors=vectors.reshape(len(rows), width),
    )


@contextmanager
def _panics_told() -> Iterator[None]:
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
