"""The parts of an index as one commit left them, held open for reading."""

import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.manifest import REBUILD, Manifest, in_one_line
from freshstack_dspy.index.rows import Rows, content_sha256, digest_of
from freshstack_dspy.index.table import ChunkTable
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.index.workplace import PartGoneError, hold
from freshstack_dspy.records import Chunk

_STAMP_FILE = "stamp"
_TRIES = 10


class Parts:
    """The parts of an index, none of which is removed while this is alive.

    Attributes:
        folder: Of the index.
        manifest: What it says of itself.
        rows: Its rows without their texts.
        lexical: Its `bm25` side.
        table: Its texts and vectors.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        locks: list[sqlite3.Connection] = []
        self._finalizer = weakref.finalize(self, _close, locks)
        with self.damage_told():
            for name in manifest.parts:
                locks.append(hold(folder / name))  # noqa: PERF401 - those before a failure are closed
            self.rows = Rows.load(folder / manifest.rows, manifest.chunks)
            self.lexical = LexicalIndex.load(folder / manifest.bm25, manifest.chunks)
        for name, stamp in (
            (manifest.rows, manifest.stamp),
            (manifest.bm25, manifest.stamp),
            (manifest.lsa, manifest.columns[0].identity),
        ):
            check_stamp(folder / name, stamp)
        self.table = ChunkTable(folder / manifest.table, manifest.table_version)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what the manifest in a folder names.

        Raises:
            IndexingError: There is no index, or it is damaged or of another schema version.
        """
        gone: PartGoneError | None = None
        for _ in range(_TRIES):
            manifest = Manifest.read(folder)
            try:
                return cls(folder, manifest)
            except PartGoneError as error:  # an update may have replaced it just now
                gone = error
        raise IndexingError(f"{folder}: a damaged index ({gone} is missing); {REBUILD}")

    def close(self) -> None:
        """Let go of the parts; only for whoever has just replaced them."""
        self._finalizer()

    @contextmanager
    def damage_told(self) -> Iterator[None]:
        """Turn what the libraries below raise of damaged files, which has no class in common."""
        try:
            yield
        except (
            OSError,
            MemoryError,
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            RuntimeError,
            sqlite3.Error,
        ) as error:
            raise IndexingError(
                f"{self.folder}: a damaged index ({in_one_line(error)}); {REBUILD}"
            ) from None

    @cached_property
    def lsa(self) -> LsaModel:
        """The fitted embedder."""
        with self.damage_told():
            model = LsaModel.load(self.folder / self.manifest.lsa)
            if model.directions.shape[1] != self.manifest.columns[0].dimensions:
                raise ValueError("lsa and its vectors do not fit")
            return model

    def counts(self) -> TermCounts:
        """Read how often each term stands in each row.

        Raises:
            IndexingError: These files are damaged.
        """
        with self.damage_told():
            counts = TermCounts.load(self.folder / self.manifest.bm25, self.lexical.vocabulary)
            if len(counts) != len(self.rows):
                raise ValueError("the counts and the rows do not fit")
            return counts

    def chunks(self, rows: NDArray[np.intp]) -> Iterator[Chunk]:
        """Read chunks, in the order of these rows.

        Raises:
            IndexingError: The table is damaged, or is not the one this index was made with.
        """
        with self.damage_told():
            row_ids = self.rows.row_ids[rows]
            found = self.table.chunks(row_ids, self.manifest.revisions)
            for row, chunk in zip(rows.tolist(), found, strict=True):
                digest = digest_of(chunk, content_sha256(chunk))
                if digest != self.rows.digests[row].tobytes():
                    raise ValueError(f"the text of {chunk.chunk_id!r} is not what was indexed")
                yield chunk

    def vectors(self, embedder: str, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Read an embedder's vectors of these rows; shape (rows, dimensions)."""
        (column,) = (each for each in self.manifest.columns if each.name == embedder)
        with self.damage_told():
            return self.table.vectors(embedder, self.rows.row_ids[rows], column.dimensions)


def write_stamp(part: Path, stamp: str) -> None:
    """Say in a part what it was made from."""
    (part / _STAMP_FILE).write_text(stamp + "\n", encoding="utf-8")


def check_stamp(part: Path, stamp: str) -> None:
    """Compare with the stamp in a part.

    Raises:
        IndexingError: It is another one, missing or damaged.
    """
    try:
        found = (part / _STAMP_FILE).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise IndexingError(
            f"{part}: no readable stamp, so it may not match the table ({in_one_line(error)}); "
            f"{REBUILD}"
        ) from None
    if found != stamp:
        raise IndexingError(f"{part}: made from {found!r}, not from {stamp!r}; {REBUILD}")


def _close(locks: Sequence[sqlite3.Connection]) -> None:
    for lock in locks:
        lock.close()
