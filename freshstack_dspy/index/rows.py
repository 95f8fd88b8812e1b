"""The rows of an index without their texts: ids, digests, and where each stands in the table."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.arrays import load_array, save_array
from freshstack_dspy.index.settings import IndexedFile
from freshstack_dspy.records import Chunk

_FILES_FILE = "files.json"
Digests: TypeAlias = NDArray[np.uint8]
"""Shape (rows, 32): a SHA-256 for each."""


def content_sha256(chunk: Chunk) -> str:
    """Hash a chunk's text."""
    return hashlib.sha256(chunk.text.encode("utf-8")).hexdigest()


def digest_of(chunk: Chunk, content: str) -> bytes:
    """Hash all of a chunk but its revision, which is that of its source.

    Args:
        chunk: The chunk.
        content: Its `content_sha256`.
    """
    fields = [
        chunk.chunk_id,
        chunk.source,
        chunk.path,
        chunk.start_byte,
        chunk.end_byte,
        chunk.tokens,
        chunk.encoding,
        chunk.title,
        chunk.url,
        content,
    ]
    return hashlib.sha256(json.dumps(fields).encode()).digest()


def embedded_digest(chunk: Chunk, content: str) -> bytes:
    """Hash what the vectors of a chunk are made from; see `term_counts.indexed_text`."""
    return hashlib.sha256(json.dumps([chunk.path, chunk.title, content]).encode()).digest()


def as_digests(values: Sequence[bytes]) -> Digests:
    """Put hashes into an array."""
    return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), 32)


def as_bytes(digests: Digests) -> list[bytes]:
    """Take hashes out of an array."""
    joined = digests.tobytes()
    return [joined[start : start + 32] for start in range(0, len(joined), 32)]


class PackedIds(NamedTuple):
    """Ids one after the other."""

    ids: NDArray[np.uint8]
    """In UTF-8."""
    ends: NDArray[np.int64]
    """Where each starts, and the last ends; shape (ids + 1,)."""


def packed(ids: Sequence[str]) -> PackedIds:
    """Put ids into arrays."""
    encoded = [chunk_id.encode() for chunk_id in ids]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return PackedIds(np.frombuffer(b"".join(encoded), np.uint8), ends)


class Rows:
    """The rows of an index, in the order of their ids, read as they are needed.

    Attributes:
        digests: See `digest_of`.
        embedded: See `embedded_digest`.
        tokens: Shape (rows,).
        row_ids: Shape (rows,): LanceDB's number of each row of the table.
        file_numbers: Shape (rows,): the place of each row's file in `files`, or -1.
    """

    def __init__(
        self,
        ids: NDArray[np.uint8],
        id_ends: NDArray[np.int64],
        digests: Digests,
        embedded: Digests,
        tokens: NDArray[np.int64],
        row_ids: NDArray[np.uint64],
        file_numbers: NDArray[np.int32],
        files: Sequence[IndexedFile] | Path,
    ) -> None:
        self._ids, self._id_ends = ids, id_ends
        self.digests, self.embedded, self.tokens = digests, embedded, tokens
        self.row_ids, self.file_numbers = row_ids, file_numbers
        self._files = files

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        for name, array in (
            ("ids", self._ids),
            ("id_ends", self._id_ends),
            ("digests", self.digests),
            ("embedded", self.embedded),
            ("tokens", self.tokens),
            ("row_ids", self.row_ids),
            ("file_numbers", self.file_numbers),
        ):
            save_array(folder / f"{name}.npy", array)
        (folder / _FILES_FILE).write_text(json.dumps(self.files), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, size: int) -> Self:
        """Read what `save` wrote; nothing is unpickled, and most is read when it is used.

        Raises:
            OSError, ValueError: A file is missing, damaged or of another size.
        """
        ids = load_array(folder / "ids.npy", np.uint8)
        id_ends = load_array(folder / "id_ends.npy", np.int64, (size + 1,))
        if ids.shape != (id_ends[-1],):
            raise ValueError(f"ids.npy is of shape {ids.shape}, not ({id_ends[-1]},)")
        if not (folder / _FILES_FILE).is_file():
            raise ValueError(f"{_FILES_FILE} is missing")
        return cls(
            ids,
            id_ends,
            digests=load_array(folder / "digests.npy", np.uint8, (size, 32)),
            embedded=load_array(folder / "embedded.npy", np.uint8, (size, 32)),
            tokens=load_array(folder / "tokens.npy", np.int64, (size,)),
            row_ids=load_array(folder / "row_ids.npy", np.uint64, (size,)),
            file_numbers=load_array(folder / "file_numbers.npy", np.int32, (size,)),
            files=folder / _FILES_FILE,
        )

    def __len__(self) -> int:
        return len(self.row_ids)

    @cached_property
    def ids(self) -> list[str]:
        """All ids, in order."""
        text = self._ids.tobytes()
        return [text[start:end].decode() for start, end in pairwise(self._id_ends.tolist())]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The row of each id."""
        return {chunk_id: row for row, chunk_id in enumerate(self.ids)}

    @property
    def files(self) -> Sequence[IndexedFile]:
        """The files the rows come from; none where they were not told."""
        if isinstance(self._files, Path):
            values = json.loads(self._files.read_text(encoding="utf-8"))
            self._files = [IndexedFile(*value) for value in values]
        return self._files

    @cached_property
    def _places(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        order = np.argsort(self.row_ids)
        return self.row_ids[order], order

    def rows_of(self, row_ids: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Give the rows of LanceDB's row numbers.

        Raises:
            ValueError: One of them is of no row.
        """
        known, order = self._places
        found = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
        if not np.array_equal(known[found], row_ids):
            raise ValueError("the table holds a row that the index does not know")
        return order[found]
