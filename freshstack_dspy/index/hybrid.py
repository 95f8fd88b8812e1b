"""The hybrid index of a corpus: BM25, vectors and their fusion over the chunks of a LanceDB table."""

import copy
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.building import BM25, LSA, TABLE, VECTORS, Draft, build, mark_of
from freshstack_dspy.index.fusion import PAPER_FUSION, fuse
from freshstack_dspy.index.lexical import LexicalIndex, indexed_text
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.models import NO_MODELS, HostedEmbedder, Models, Reranker
from freshstack_dspy.index.ranking import SCORE_DECIMALS, nearest, unit_rows
from freshstack_dspy.index.storage import (
    DIMENSIONS,
    IndexedFile,
    IndexManifest,
    read_manifest,
)
from freshstack_dspy.index.table import ChunkTable
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.progress import Fractions, Progress, showing
from freshstack_dspy.records import Chunk, ScoredChunk, ranked

HYBRID, RERANKED = "hybrid", "hybrid+rerank"


class HybridIndex:
    """A searchable corpus; what it reads stays as it was opened until the second rebuild.

    Attributes:
        path: The folder of this index.
        manifest: What it is made from, and what it holds.
    """

    def __init__(
        self, path: Path, manifest: IndexManifest, models: Models, fused: Sequence[str]
    ) -> None:
        """Use `build` or `open`."""
        self.path, self.manifest = path, manifest
        self._folder = path / manifest.version
        self._table = ChunkTable(self._folder / TABLE)
        self._matrix = functools.cache(self._read_matrix)
        self._models = models
        self._embedders = {embedder.name: embedder for embedder in models.embedders}
        own = (BM25, LSA) if any(column.name == LSA for column in manifest.vectors) else (BM25,)
        self._own, self._fused = own, (*own, *fused)

    @classmethod
    def build(
        cls,
        root: Path | str,
        name: str,
        chunks: Sequence[Chunk],
        *,
        files: Sequence[IndexedFile] = (),
        models: Models = NO_MODELS,
        dimensions: int = DIMENSIONS,
        cut_by: str = "",
        progress: Progress | bool | None = None,
    ) -> Self:
        """Open the index of these chunks, settings and embedders, or build it.

        Vectors of the same embedder for the same content are taken from the index that is there;
        `bm25` and `lsa` are made anew. Until the new index is whole, others open the old one.

        Args:
            root: The folder where indexes are kept, one folder for each.
            name: Of this index, and of its folder.
            chunks: In any order, with distinct ids, one revision for each source.
            files: That the chunks were cut from; kept for the caller to compare, as `cut_by` is.
            models: What gives the chunks vectors, next to `lsa`, and what reranks.
            dimensions: Of the `lsa` vectors, at most; a small corpus has fewer. 0: no `lsa`.
            cut_by: How the chunks were cut.
            progress: Notified how far each stage is: `terms`, `bm25`, `lsa`, the names of the
                embedders, and `table`; or whether bars show it, by default where a person looks on.

        Raises:
            IndexingError: No chunk, two chunks with one id, no word in any chunk, a folder that
                cannot be written, or an embedder that gives no vectors.
        """
        with showing(progress) as shown:
            draft = Draft(chunks, dimensions, models.embedders, files, cut_by, Fractions(shown))
            manifest = build(Path(root, name), draft)
        return cls(Path(root, name), manifest, models, [each.name for each in models.embedders])

    @classmethod
    def open(cls, path: Path | str, *, models: Models = NO_MODELS) -> Self:
        """Open the index in a folder.

        Args:
            path: The folder of the index, that of its name.
            models: Those of the index that are to be searched by.

        Raises:
            IndexingError: There is none, it is of another version of this program, or it has no
                vectors of one of these embedders as that is now.
        """
        path = Path(path)
        manifest = read_manifest(path)
        stored = {each.name: each.identity for each in manifest.vectors if each.name != LSA}
        for embedder in models.embedders:
            if stored.get(embedder.name) != embedder.identity:
                raise IndexingError(
                    f"{path}: no vectors of embedder {embedder.name!r} as it is configured now; "
                    "make them with: freshstack index CONFIG"
                )
        return cls(path, manifest, models, list(stored))

    def reranked_by(self, reranker: Reranker | None, depth: int) -> Self:
        """Give the same index with another reranker, of so many chunks."""
        other = copy.copy(self)
        other._models = Models(  # noqa: SLF001 - of this class
            self._models.embedders, reranker, depth
        )
        return other

    @classmethod
    def holds(
        cls,
        root: Path | str,
        name: str,
        chunks: Sequence[Chunk],
        *,
        models: Models = NO_MODELS,
        dimensions: int = DIMENSIONS,
    ) -> bool:
        """Whether `build` would open an index without changing it; arguments as there."""
        try:
            manifest = read_manifest(Path(root, name))
        except IndexingError:
            return False
        return Draft(chunks, dimensions, models.embedders).is_in(Path(root, name), manifest)

    @classmethod
    def known(
        cls, root: Path | str, name: str, file_sha256: str, *, models: Models, dimensions: int
    ) -> Self | None:
        """Open an index of which it was noted that it is of the chunks in this file, or None.

        Of hosted embedders it cannot be known: their vectors are those that are recorded now.
        """
        path = Path(root, name)
        try:
            manifest = read_manifest(path)
        except IndexingError:
            return None
        vectors = {(column.name, column.identity) for column in manifest.vectors}
        has_all = all(
            (each.name, each.identity) in vectors and not isinstance(each, HostedEmbedder)
            for each in models.embedders
        )
        is_of = (path / manifest.version / mark_of(file_sha256, dimensions)).exists()
        fused = [each.name for each in models.embedders]
        return cls(path, manifest, models, fused) if is_of and has_all else None

    def note(self, file_sha256: str, dimensions: int) -> None:
        """Note that this index is of the chunks in a file, where it can be written to."""
        with suppress(OSError):
            (self._folder / mark_of(file_sha256, dimensions)).touch()

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names that `search` takes."""
        own = (*self._own, *self._embedders)
        if self._missing:
            return own
        return (*own, HYBRID, *([RERANKED] if self._models.reranker else []))

    def search(
        self,
        retriever: str,
        texts: Sequence[str],
        depth: int,
        *,
        fusion: FusionConfig = PAPER_FUSION,
    ) -> list[list[ScoredChunk]]:
        """Rank the chunks for each text: by score descending, then by chunk id.

        Only chunks of positive score are found (a reranker's scores may be any), so a ranking may
        be shorter than `depth`, and a text without any known term finds nothing by `bm25` and `lsa`.

        Args:
            retriever: One of `retrievers`; `hybrid` fuses `bm25`, `lsa` and all embedders, each
                at the same depth; `hybrid+rerank` scores the first of these chunks anew.
            texts: What to search for.
            depth: How many chunks to give at most, from 1.
            fusion: How `hybrid` fuses.

        Raises:
            IndexingError: The retriever is unknown or lacks its model.
        """
        self._check(retriever)
        if not texts:
            return []
        if retriever not in (HYBRID, RERANKED):
            return self._by_one(retriever, texts, depth)
        fused_depth = depth if retriever == HYBRID else self._models.rerank_depth
        found = {name: self._by_one(name, texts, fused_depth) for name in self._fused}
        fused = [
            fuse({name: rankings[place] for name, rankings in found.items()}, fused_depth, fusion)
            for place in range(len(texts))
        ]
        if retriever == HYBRID:
            return fused
        return [ranking[:depth] for ranking in self._reranked(texts, fused)]

    def frequency(self, term: str) -> int:
        """How many chunks have a term, one of `text.terms`, in their path, title or text."""
        return self._lexical.frequency(term)

    def chunks_by_id(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Give chunks by their ids, in the given order.

        Raises:
            IndexingError: There is none of one of these ids.
        """
        wanted = list(dict.fromkeys(chunk_ids))
        try:
            rows = [self._row_of[chunk_id] for chunk_id in wanted]
        except KeyError as error:
            raise IndexingError(f"no chunk {error} in {self.path}") from None
        chunks = self._table.chunks(rows, self.manifest.revisions)
        return dict(zip(wanted, chunks, strict=True))

    def chunks(self) -> Iterator[Chunk]:
        """Read all chunks, in the order of their ids."""
        return self._table.chunks(range(len(self)), self.manifest.revisions)

    @cached_property
    def files(self) -> dict[str, tuple[str, str]]:
        """The source and path of each chunk, by its id."""
        sources, paths = self._table.values("source"), self._table.values("path")
        return dict(zip(self._ids, zip(sources, paths, strict=True), strict=True))

    def __len__(self) -> int:
        return self.manifest.chunks

    @cached_property
    def _ids(self) -> list[str]:
        return self._table.values("chunk_id")

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self._ids)}

    @cached_property
    def _lexical(self) -> LexicalIndex:
        return LexicalIndex.load(self._folder / BM25)

    @cached_property
    def _lsa(self) -> LsaModel:
        return LsaModel.load(self._folder / LSA)

    @property
    def _missing(self) -> list[str]:
        """The embedders of the index that it was opened without."""
        return [name for name in self._fused if name not in (*self._own, *self._embedders)]

    def _check(self, retriever: str) -> None:
        if retriever in self.retrievers:
            return
        needed = ""
        if retriever in (*self._missing, HYBRID, RERANKED):
            missing = [f"the embedder {name!r} ([[embedder]]" for name in self._missing]
            missing.append("a reranker ([reranker]")
            needed = f" needs {missing[0]} in the configuration)"
        no = "" if needed else "no "
        raise IndexingError(
            f"{no}retriever {retriever!r}{needed}; there are: {', '.join(self.retrievers)}"
        )

    def _by_one(self, retriever: str, texts: Sequence[str], depth: int) -> list[list[ScoredChunk]]:
        """Rank by a retriever that fuses no others."""
        if retriever == BM25:
            rankings = self._lexical.search(texts, depth)
        else:
            if retriever == LSA:
                queries = self._lsa.embed(texts)
            else:
                vectors = self._embedders[retriever].embed_queries(texts)
                queries = unit_rows(vectors, retriever, len(texts))
            rankings = nearest(queries, self._matrix(retriever), depth)
        return [[ScoredChunk(self._ids[row], score) for row, score in rows] for rows in rankings]

    def _read_matrix(self, name: str) -> NDArray[np.float32]:
        """All vectors of a name; those of `lsa` are mapped into memory."""
        path = self._folder / LSA / VECTORS
        if name == LSA and path.exists():
            mapped: NDArray[np.float32] = np.load(path, mmap_mode="r")
            return mapped
        return self._table.matrix(name)

    def _reranked(
        self, texts: Sequence[str], rankings: Sequence[Sequence[ScoredChunk]]
    ) -> list[list[ScoredChunk]]:
        """Score the chunks of rankings anew."""
        reranker = self._models.reranker
        assert reranker is not None
        found = self.chunks_by_id(entry.chunk_id for ranking in rankings for entry in ranking)
        passages = {chunk_id: indexed_text(chunk) for chunk_id, chunk in found.items()}

        def rescored(pair: tuple[str, Sequence[ScoredChunk]]) -> list[ScoredChunk]:
            text, ranking = pair
            ids = [entry.chunk_id for entry in ranking]
            scores = reranker.scores(text, [passages[each] for each in ids]) if ids else []
            if len(scores) != len(ids) or not all(map(math.isfinite, scores)):
                raise IndexingError("the reranker must give one finite number for each passage")
            rounded = (round(float(score), SCORE_DECIMALS) for score in scores)
            return ranked(dict(zip(ids, rounded, strict=True)))

        pairs = zip(texts, rankings, strict=True)
        return map_in_order(rescored, pairs, workers=reranker.at_once)
