"""The hybrid index: a LanceDB table with latent vectors, BM25 beside it, and their fusion."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.fusion import fuse_normalised_sum
from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.lsa import LsaModel, fit_lsa
from freshstack_dspy.index.manifest import (
    MANIFEST_FILE,
    REBUILD,
    SCHEMA_VERSION,
    Manifest,
    Stamp,
    fingerprint,
    in_one_line,
)
from freshstack_dspy.index.ranking import RowScore
from freshstack_dspy.index.table import StoredRows, read_table, write_table
from freshstack_dspy.index.term_rows import number_terms
from freshstack_dspy.index.vectors import nearest
from freshstack_dspy.index.workplace import new_folder, sole_builder
from freshstack_dspy.records import Chunk, ScoredChunk

Report = Callable[[str, float], None]
"""Told the name of a stage and the fraction of it that is done."""
_BM25, _LSA = "bm25", "lsa"


class HybridIndex:
    """A searchable corpus, read into memory.

    On disk it is a folder named by the start of its fingerprint, with `meta.json`, the table
    `chunks.lance`, and the parts `bm25` and `lsa`, each stamped with the table's version.

    Attributes:
        path: The folder of this index.
        fingerprint: SHA-256 of the chunks, the settings and the version of the format.
        retrievers: The names that `search` takes.
    """

    retrievers: tuple[str, ...] = (_BM25, _LSA, "hybrid")

    def __init__(
        self, path: Path, manifest: Manifest, rows: StoredRows, lexical: LexicalIndex, lsa: LsaModel
    ) -> None:
        self.path = path
        self.fingerprint = manifest.fingerprint
        self._chunks = {chunk.chunk_id: chunk for chunk in rows.chunks}
        self._ids = list(self._chunks)
        self._vectors = rows.vectors.astype(np.float64)
        self._lexical = lexical
        self._lsa = lsa

    @classmethod
    def build(
        cls,
        path: Path,
        chunks: Sequence[Chunk],
        *,
        dimensions: int = 256,
        progress: Report | None = None,
    ) -> Self:
        """Build an index; one of the same fingerprint is replaced once the new one is whole.

        Args:
            path: The folder where indexes are kept, one folder for each.
            chunks: In any order, with distinct ids.
            dimensions: Of the latent vectors, at most.
            progress: Told how far the stages `terms`, `bm25`, `lsa` and `table` are.

        Raises:
            IndexingError: No chunk, two chunks with one id, nothing to find any chunk by, or no
                permission to write.
        """
        rows = _checked(chunks, dimensions)
        mark = fingerprint(rows, dimensions)
        with sole_builder(path):
            _write_index(_place(path, mark), rows, mark, dimensions, progress)
        return cls.open(_place(path, mark))

    @classmethod
    def build_or_open(
        cls,
        path: Path,
        chunks: Sequence[Chunk],
        *,
        dimensions: int = 256,
        progress: Report | None = None,
    ) -> Self:
        """Open the index of these chunks and settings, or build it where it is missing or damaged.

        Args:
            path: As for `build`.
            chunks: As for `build`.
            dimensions: As for `build`.
            progress: As for `build`; told nothing where the index stands.

        Raises:
            IndexingError: As for `build`.
        """
        rows = _checked(chunks, dimensions)
        mark = fingerprint(rows, dimensions)
        place = _place(path, mark)
        with contextlib.suppress(IndexingError):
            return cls.open(place)
        with sole_builder(path):
            with contextlib.suppress(IndexingError):  # another process may have built it meanwhile
                return cls.open(place)
            _write_index(place, rows, mark, dimensions, progress)
        return cls.open(place)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an index and check that its parts belong together.

        Args:
            path: The folder of an index, or the folder where indexes are kept if it holds just one.

        Raises:
            IndexingError: There is none, there are several, or it is damaged, inconsistent or of
                another schema version.
        """
        folder = _only_index(path)
        manifest = Manifest.read(folder)
        try:
            rows = read_table(folder)
            # The version first: a table that has changed is still a readable table.
            stamp = Stamp(fingerprint=manifest.fingerprint, table_version=rows.version)
            for part in (_BM25, _LSA):
                stamp.check(folder / part)
            lexical = LexicalIndex.load(folder / _BM25)
            lsa = LsaModel.load(folder / _LSA)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise IndexingError(
                f"{folder}: a damaged index ({in_one_line(error)}); {REBUILD}"
            ) from None
        _check_parts(folder, manifest, rows, lexical, lsa)
        return cls(folder, manifest, rows, lexical, lsa)

    def search(self, retriever: str, texts: Sequence[str], depth: int) -> list[list[ScoredChunk]]:
        """Rank the chunks for each text.

        Only chunks of positive score are found, so a ranking may be shorter than `depth`, and a
        text without any known term finds nothing.

        Args:
            retriever: One of `retrievers`; `hybrid` fuses the others, each at the same depth.
            texts: What to search for.
            depth: How many chunks to give at most.

        Returns:
            One ranking per text, by score descending, then by chunk id.

        Raises:
            IndexingError: The retriever is unknown, or the depth below 1.
        """
        if retriever not in self.retrievers:
            raise IndexingError(
                f"unknown retriever {retriever!r}; it must be one of {', '.join(self.retrievers)}"
            )
        if depth < 1:
            raise IndexingError(f"depth must be at least 1, not {depth!r}")
        if retriever == _BM25:
            return self._named(self._lexical.search(texts, depth))
        if retriever == _LSA:
            return self._named(nearest(self._lsa.embed(texts), self._vectors, depth))
        pairs = zip(self.search(_BM25, texts, depth), self.search(_LSA, texts, depth), strict=True)
        return [fuse_normalised_sum(pair, depth) for pair in pairs]

    def chunk(self, chunk_id: str) -> Chunk:
        """Give a chunk by its id.

        Raises:
            IndexingError: There is none of this id.
        """
        try:
            return self._chunks[chunk_id]
        except KeyError:
            raise IndexingError(
                f"no chunk {chunk_id!r} in {self.path}; the ids are those of its {len(self)} chunks"
            ) from None

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks in the order of their ids."""
        return iter(self._chunks.values())

    def __len__(self) -> int:
        return len(self._ids)

    def _named(self, rankings: list[list[RowScore]]) -> list[list[ScoredChunk]]:
        return [
            [ScoredChunk(self._ids[row], score) for row, score in ranking] for ranking in rankings
        ]


def _checked(chunks: Sequence[Chunk], dimensions: int) -> list[Chunk]:
    """Sort chunks by id; refuse what no index can be built from."""
    if dimensions < 1:
        raise IndexingError(f"dimensions must be at least 1, not {dimensions!r}")
    if not chunks:
        raise IndexingError("there are no chunks to index; is the corpus empty, or all skipped?")
    rows = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    for one, other in pairwise(rows):
        if one.chunk_id == other.chunk_id:
            raise IndexingError(
                f"two chunks have the id {one.chunk_id!r}; ids must differ: is a folder or "
                "repository in the corpus twice under one name?"
            )
    return rows


def _place(path: Path, mark: str) -> Path:
    return path / mark[:16]


def _write_index(
    place: Path, chunks: list[Chunk], mark: str, dimensions: int, progress: Report | None
) -> None:
    report = progress or (lambda _stage, _fraction: None)
    corpus = number_terms(chunks, lambda fraction: report("terms", fraction))
    report("terms", 1)
    if not corpus.vocabulary:
        raise IndexingError(
            f"none of the {len(chunks)} chunks holds a word to find it by; the first is "
            f"{chunks[0].chunk_id!r}"
        )
    with new_folder(place) as folder:
        report(_BM25, 0)
        lexical = LexicalIndex.build(corpus)
        lexical.save(folder / _BM25)
        report(_BM25, 1)
        report(_LSA, 0)
        fitted = fit_lsa(corpus, dimensions)
        fitted.model.save(folder / _LSA)
        report(_LSA, 1)
        report("table", 0)
        version = write_table(folder, chunks, fitted.vectors)
        report("table", 1)
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            fingerprint=mark,
            table_version=version,
            chunks=len(chunks),
            dimensions=dimensions,
        )
        for part in (_BM25, _LSA):
            manifest.stamp.write(folder / part)
        manifest.write(folder)


def _only_index(path: Path) -> Path:
    if (path / MANIFEST_FILE).is_file():
        return path
    found = sorted(
        child.parent for child in path.glob(f"*/{MANIFEST_FILE}") if child.parent.name[0] != "."
    )
    if not found:
        raise IndexingError(f"{path}: no index here; a build makes one")
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise IndexingError(f"{path}: several indexes here; open one of {names}")
    return found[0]


def _check_parts(
    folder: Path, manifest: Manifest, rows: StoredRows, lexical: LexicalIndex, lsa: LsaModel
) -> None:
    """Refuse parts that do not fit: the stamps are right, but a file may be another's."""
    size = manifest.chunks
    width = rows.vectors.shape[1]
    fits = (
        rows.version == manifest.table_version
        and len(rows.chunks) == len(rows.vectors) == len(lexical) == size
        and lsa.directions.shape == (len(lsa.features), width)
        and lsa.idf.shape == (len(lsa.features),)
        and fingerprint(rows.chunks, manifest.dimensions) == manifest.fingerprint
    )
    if not fits:
        raise IndexingError(f"{folder}: the parts of this index do not match; {REBUILD}")
