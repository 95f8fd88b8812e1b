"""Searching an index by the name of a retriever."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.manifest import VectorColumn
from freshstack_dspy.index.models import Embedder, Reranker
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.ranking import SCORE_DECIMALS, RowScore, ordered
from freshstack_dspy.index.settings import LSA
from freshstack_dspy.index.term_counts import indexed_text
from freshstack_dspy.index.vectors import cosines, nearest, unit_rows
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.records import ScoredChunk, ranked

_EXACT_AMONG = 20_000_000
"""Numbers in the vectors that a filter lets through, up to which these are searched exactly."""
BM25, HYBRID, RERANKED = "bm25", "hybrid", "hybrid+rerank"


class Models(NamedTuple):
    """The models an index was opened with."""

    embedders: Sequence[Embedder] = ()
    reranker: Reranker | None = None
    rerank_depth: int = 50
    """How many chunks of the hybrid ranking are scored anew; no others are found."""


class Searcher:
    """The retrievers of an index.

    Args:
        parts: What is searched.
        models: Those at hand.
        fused: The embedders that `hybrid` needs, beside `lsa`.
    """

    def __init__(self, parts: Parts, models: Models, fused: Sequence[str]) -> None:
        self._parts, self._models, self._fused = parts, models, fused
        self._embedders = {embedder.name: embedder for embedder in models.embedders}
        self._matrices: dict[str, NDArray[np.float32]] = {}

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names that `search` takes."""
        hybrid = (HYBRID,) if all(name in self._embedders for name in self._fused) else ()
        reranked = (RERANKED,) if hybrid and self._models.reranker else ()
        return (BM25, LSA, *self._embedders, *hybrid, *reranked)

    def search(
        self,
        retriever: str,
        texts: Sequence[str],
        depth: int,
        where: str | None,
        fusion: FusionConfig,
    ) -> list[list[ScoredChunk]]:
        """See `HybridIndex.search`."""
        self._check(retriever)
        if depth < 1:
            raise IndexingError(f"depth must be at least 1, not {depth!r}")
        mask = None if where is None else self._mask(where)
        if retriever == RERANKED:
            found = self._hybrid(texts, self._models.rerank_depth, mask, where, fusion)
            return [ranking[:depth] for ranking in self._reranked(texts, found)]
        if retriever == HYBRID:
            return self._hybrid(texts, depth, mask, where, fusion)
        return self._of_one(retriever, texts, depth, mask, where)

    def _check(self, retriever: str) -> None:
        if retriever in self.retrievers:
            return
        stored = [column.name for column in self._parts.manifest.columns[1:]]
        missing = [name for name in self._fused if name not in self._embedders]
        if retriever in stored:
            raise IndexingError(
                f"retriever {retriever!r} needs its embedder to embed what is searched for: open "
                f"the index with it (embedders=[…], or its [[embedder]] in the configuration)"
            )
        if retriever in (HYBRID, RERANKED) and missing:
            raise IndexingError(
                f"retriever {retriever!r} fuses the embedder {missing[0]!r} too: open the index "
                f"with it (embedders=[…], or its [[embedder]] in the configuration), or search by "
                f"{', '.join(self.retrievers)}"
            )
        if retriever == RERANKED:
            raise IndexingError(
                f"retriever {retriever!r} needs a reranker: open the index with one (reranker=…, or "
                "[reranker] in the configuration)"
            )
        raise IndexingError(
            f"unknown retriever {retriever!r}; it must be one of {', '.join(self.retrievers)}"
        )

    def _mask(self, where: str) -> NDArray[np.bool_]:
        with self._parts.damage_told():
            rows = self._parts.rows.rows_of(self._parts.table.rows_where(where))
        mask = np.zeros(len(self._parts.rows), bool)
        mask[rows] = True
        return mask

    def _of_one(
        self,
        retriever: str,
        texts: Sequence[str],
        depth: int,
        mask: NDArray[np.bool_] | None,
        where: str | None,
    ) -> list[list[ScoredChunk]]:
        if retriever == BM25:
            with self._parts.damage_told():
                rankings = self._parts.lexical.search(texts, depth, mask)
        else:
            column = self._column(retriever)
            queries = self._queries(retriever, texts, column.dimensions)
            if column.search == "exact":
                rankings = nearest(queries, self._matrix(column.name), depth, mask)
            elif mask is not None and mask.sum() * column.dimensions <= _EXACT_AMONG:
                rankings = self._nearest_among(queries, column.name, depth, np.flatnonzero(mask))
            else:
                share = 1.0 if mask is None else float(mask.mean())
                rankings = [
                    self._near(query, column.name, depth, where, share) for query in queries
                ]
        ids = self._parts.rows.ids
        return [[ScoredChunk(ids[row], score) for row, score in rows] for rows in rankings]

    def _hybrid(
        self,
        texts: Sequence[str],
        depth: int,
        mask: NDArray[np.bool_] | None,
        where: str | None,
        fusion: FusionConfig,
    ) -> list[list[ScoredChunk]]:
        """Fuse all other retrievers, each at the same depth."""
        found = {
            name: self._of_one(name, texts, depth, mask, where)
            for name in (BM25, LSA, *self._fused)
        }
        return [
            fuse({name: rankings[place] for name, rankings in found.items()}, depth, fusion)
            for place in range(len(texts))
        ]

    def _reranked(
        self, texts: Sequence[str], rankings: Sequence[Sequence[ScoredChunk]]
    ) -> list[list[ScoredChunk]]:
        """Score the chunks of rankings anew."""
        reranker = self._models.reranker
        assert reranker is not None
        numbers = self._parts.rows.numbers
        found = sorted({numbers[entry.chunk_id] for ranking in rankings for entry in ranking})
        chunks = self._parts.chunks(np.array(found, np.intp))
        passages = {chunk.chunk_id: indexed_text(chunk) for chunk in chunks}
        return map_in_order(
            lambda pair: _rescored(reranker, passages, *pair),
            zip(texts, rankings, strict=True),
            workers=reranker.at_once,
        )

    def _column(self, retriever: str) -> VectorColumn:
        return next(each for each in self._parts.manifest.columns if each.name == retriever)

    def _queries(self, retriever: str, texts: Sequence[str], width: int) -> NDArray[np.float64]:
        if not texts:
            return np.empty((0, width))
        if retriever == LSA:
            return self._parts.lsa.embed(texts)
        vectors = self._embedders[retriever].embed_queries(texts)
        return unit_rows(vectors, retriever, len(texts), width)

    def _matrix(self, name: str) -> NDArray[np.float32]:
        """All vectors of a column, in the order of the rows; read once."""
        if name not in self._matrices:
            self._matrices[name] = self._parts.vectors(name, np.arange(len(self._parts.rows)))
        return self._matrices[name]

    def _nearest_among(
        self, queries: NDArray[np.float64], name: str, depth: int, rows: NDArray[np.intp]
    ) -> list[list[RowScore]]:
        """Search the vectors of some rows exactly."""
        if not len(rows):
            return [[] for _ in queries]
        found = nearest(queries, self._parts.vectors(name, rows), depth)
        return [[RowScore(int(rows[place]), score) for place, score in each] for each in found]

    def _near(
        self,
        query: NDArray[np.float64],
        name: str,
        depth: int,
        where: str | None,
        share: float,
    ) -> list[RowScore]:
        """Find candidates by the approximate index, and score these exactly."""
        if not query.any():
            return []
        with self._parts.damage_told():
            row_ids, vectors = self._parts.table.near(
                query.astype(np.float32), name, depth, where, share
            )
            rows = self._parts.rows.rows_of(row_ids)
        order = np.argsort(rows)
        return ordered(rows[order], cosines(query, vectors[order]), depth)


def _rescored(
    reranker: Reranker, passages: Mapping[str, str], text: str, ranking: Sequence[ScoredChunk]
) -> list[ScoredChunk]:
    """Score the chunks of one ranking anew."""
    if not ranking:
        return []
    scores = reranker.scores(text, [passages[entry.chunk_id] for entry in ranking])
    if len(scores) != len(ranking) or not all(map(math.isfinite, scores)):
        raise IndexingError(
            f"the reranker {reranker.identity!r} gave {len(scores)} scores for {len(ranking)} "
            "passages, or some that are not finite; it must give one number for each"
        )
    pairs = zip(ranking, scores, strict=True)
    return ranked(
        {entry.chunk_id: round(float(score), SCORE_DECIMALS) for entry, score in pairs},
        len(ranking),
    )
