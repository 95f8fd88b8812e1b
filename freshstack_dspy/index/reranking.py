"""Rerank what retrievers found: by a model that scores passages, or by vectors (MMR)."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import SCORE_DECIMALS
from freshstack_dspy.lm.workers import map_in_order


class Reranker(Protocol):
    """A model that scores passages for a text."""

    @property
    def at_once(self) -> int:
        """How many texts it may be asked about at the same time, by threads."""
        ...

    @property
    def identity(self) -> str:
        """Everything its scores depend on."""
        ...

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, given best first by the retriever, in this order; higher is better."""
        ...


class Search(NamedTuple):
    """A text, and the passages that were found for it by id, the best first."""

    text: str
    passages: Mapping[str, str]


def rescored(reranker: Reranker, searches: Sequence[Search]) -> list[dict[str, float]]:
    """Score the passages of searches anew, several searches at once.

    Raises:
        IndexingError: The reranker does not give one finite number for each passage.
    """

    def scored(search: Search) -> dict[str, float]:
        ids = list(search.passages)
        scores = reranker.scores(search.text, list(search.passages.values())) if ids else []
        if len(scores) != len(ids) or not all(map(math.isfinite, scores)):
            raise IndexingError("the reranker must give one finite number for each passage")
        return {
            chunk_id: round(float(score), SCORE_DECIMALS)
            for chunk_id, score in zip(ids, scores, strict=True)
        }

    each = getattr(reranker, "each", None)  # one that asks a chat model has a way of its own
    each = each or partial(map_in_order, workers=reranker.at_once)
    scores: list[dict[str, float]] = each(scored, searches)
    return scores


def scores_by_place(order: Sequence[int]) -> list[float]:
    """Scores that put passages into an order of their places: the number of those from each on."""
    scores = [0.0] * len(order)
    for rank, place in enumerate(order):
        scores[place] = float(len(order) - rank)
    return scores


class Mmr(NamedTuple):
    """Maximal marginal relevance over vectors of the index (Carbonell and Goldstein, SIGIR 1998)."""

    vectors: str = "lsa"
    """Whose vectors are compared: `lsa`, or the name of an embedder."""
    weight: float = 0.7
    """The λ of the paper."""

    @property
    def identity(self) -> str:
        """Everything its order depends on but the vectors, which are the index's."""
        return f"mmr by {self.vectors}, lambda {self.weight}"

    def order(self, query: NDArray[np.float64], vectors: NDArray[np.float64]) -> list[int]:
        """Order rows: each next one has the highest λ cos(row, query) − (1 − λ) max cos(row, chosen).

        Equal values, rounded, stay in the order of the rows.

        Args:
            query: Shape (dimensions,), of length 1 or 0.
            vectors: Shape (rows, dimensions), of length 1 or 0.
        """
        relevance, likeness = vectors @ query, vectors @ vectors.T
        nearest = np.zeros(len(vectors))  # to none, at first
        left, chosen = list(range(len(vectors))), list[int]()
        while left:
            values = self.weight * relevance - (1 - self.weight) * nearest
            best = max(left, key=lambda row: (round(float(values[row]), SCORE_DECIMALS), -row))
            left.remove(best)
            nearest = np.maximum(nearest, likeness[best]) if chosen else likeness[best]
            chosen.append(best)
        return chosen
