"""The best rows of a score array, and the nearest vectors: by score descending, then by row."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError

SCORE_DECIMALS = 6
"""Scores are rounded before they are ranked: the last digits of a sum of products depend on the
machine, and with them the order of chunks of equal text would."""
_ROUNDING = 10.0**-SCORE_DECIMALS
_SCORES_AT_ONCE = 8_000_000
_UNIT_ROUNDOFF = 2.0**-24


class RowScore(NamedTuple):
    """One entry of a ranking of rows."""

    row: int
    score: float


def best_rows(scores: NDArray[np.float64], depth: int) -> list[RowScore]:
    """Rank the rows of positive score, rounded: by score descending, then by row ascending."""
    rows = _candidates(scores, depth, _ROUNDING)
    return ordered(rows, scores[rows], depth)


def ordered(rows: NDArray[np.intp], scores: NDArray[np.float64], depth: int) -> list[RowScore]:
    """Rank rows, given in ascending order, by their rounded scores; those of no score are left out."""
    rounded = np.round(scores, SCORE_DECIMALS)
    order = np.argsort(-rounded, kind="stable")[:depth]
    order = order[rounded[order] > 0]
    return list(map(RowScore, rows[order].tolist(), rounded[order].tolist()))


def nearest(
    queries: NDArray[np.float64], blocks: Iterable[NDArray[np.float32]], depth: int
) -> list[list[RowScore]]:
    """Rank rows by cosine for each query; rows of no or negative cosine are not found.

    Queries and vectors are of length 1 or 0. The vectors come in blocks, of which one is in memory
    at a time. Single precision finds the candidates, with a margin for all it can be wrong by;
    double precision scores them, as if all had been scored so.
    """
    best: list[list[RowScore]] = [[] for _ in queries]
    start = 0
    for vectors in blocks:
        for place, hits in enumerate(_nearest(queries, vectors, depth)):
            best[place] += [RowScore(start + row, score) for row, score in hits]
            best[place] = sorted(best[place], key=lambda hit: (-hit.score, hit.row))[:depth]
        start += len(vectors)
    return best


def _nearest(
    queries: NDArray[np.float64], vectors: NDArray[np.float32], depth: int
) -> Iterator[list[RowScore]]:
    # Higham, Accuracy and Stability of Numerical Algorithms, §3.1: a dot product of n terms is off
    # by at most n units of roundoff for unit vectors, and rounding the query adds one.
    error = 1.1 * (vectors.shape[1] + 2) * _UNIT_ROUNDOFF
    step = max(1, _SCORES_AT_ONCE // len(vectors))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        rough = block.astype(np.float32) @ vectors.T + np.float32(error)
        for query, scores in zip(block, rough, strict=True):
            rows = _candidates(scores, depth, 2 * error + _ROUNDING)
            yield ordered(rows, cosines(query, vectors[rows]), depth)


def cosines(query: NDArray[np.float64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Score vectors in double precision, each by itself: equal ones give equal numbers."""
    scores: NDArray[np.float64] = np.einsum("ij,j->i", vectors.astype(np.float64), query)
    return scores


def unit_rows(vectors: NDArray[np.number], embedder: str, rows: int) -> NDArray[np.float64]:
    """Give vectors the length 1, or 0 where they have none."""
    array = np.asarray(vectors, np.float64)
    if array.ndim != 2 or len(array) != rows or not array.shape[1]:
        raise IndexingError(
            f"embedder {embedder!r} gave an array of shape {array.shape} for {rows} texts"
        )
    if not np.isfinite(array).all():
        raise IndexingError(f"embedder {embedder!r} gave a vector that is not finite")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(
        array, lengths, out=np.zeros_like(array), where=lengths > 0
    )
    return unit


def _candidates(scores: NDArray[np.floating], depth: int, margin: float) -> NDArray[np.intp]:
    """The rows of positive score that are among the best, or less than a margin below them."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) <= depth:
        return rows
    positive = scores[rows]
    return np.asarray(rows[positive >= np.partition(positive, -depth)[-depth] - margin])
