"""The vectors of a corpus, and their exact nearest neighbours."""

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import ROUNDING, RowScore, candidate_rows, ordered

_SCORES_AT_ONCE = 8_000_000
_UNIT_ROUNDOFF = 2.0**-24
_NO_LENGTH = 1e-9


def unit_rows(
    vectors: NDArray[np.number], embedder: str, rows: int, columns: int | None = None
) -> NDArray[np.float64]:
    """Give vectors the length 1, or 0 where they have none.

    Args:
        vectors: What an embedder gave.
        embedder: Its name.
        rows: How many there must be.
        columns: How many there must be; None: any number.

    Raises:
        IndexingError: It is another shape, or a number is not finite.
    """
    found = np.asarray(vectors)
    if found.ndim != 2 or len(found) != rows or found.shape[1] != (columns or found.shape[1]):
        raise IndexingError(
            f"embedder {embedder!r} gave an array of shape {found.shape}, not "
            f"({rows}, {columns or 'dimensions'})"
        )
    if not found.shape[1]:
        raise IndexingError(f"embedder {embedder!r} gave vectors of no dimension")
    finite = np.isfinite(found).all(axis=1)
    if not finite.all():
        raise IndexingError(
            f"embedder {embedder!r} gave text {int(np.argmin(finite)) + 1} of {rows} a vector with "
            "numbers that are not finite; it is of no use for search"
        )
    exact = found.astype(np.float64)
    largest = np.abs(exact).max(axis=1, keepdims=True)
    exact /= np.where(largest > _NO_LENGTH, largest, 1)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.where(lengths > _NO_LENGTH, exact / np.maximum(lengths, _NO_LENGTH), 0.0)


def nearest(
    queries: NDArray[np.float64],
    vectors: NDArray[np.float32],
    depth: int,
    mask: NDArray[np.bool_] | None = None,
) -> list[list[RowScore]]:
    """Rank rows by cosine for each query; rows of no or negative cosine are not found.

    Single precision finds the candidates, with a margin for all it can be wrong by; double
    precision scores them, each by itself, so the result is as if all had been scored so.

    Args:
        queries: Shape (queries, dimensions), rows of length 1 or 0.
        vectors: Shape (rows, dimensions), rows of length 1 or 0.
        depth: How many rows to give at most.
        mask: The rows that may be found, shape (rows,); by default all.
    """
    # Higham, Accuracy and Stability of Numerical Algorithms, §3.1: a dot product of n terms is off
    # by at most n units of roundoff for unit vectors, and rounding the query adds one.
    error = 1.1 * (vectors.shape[1] + 2) * _UNIT_ROUNDOFF
    step = max(1, _SCORES_AT_ONCE // len(vectors))
    rankings = []
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        rough = block.astype(np.float32) @ vectors.T
        if mask is not None:
            rough[:, ~mask] = -1
        for query, scores in zip(block, rough, strict=True):
            rows = _candidates(scores, depth, error)
            if mask is not None:
                rows = rows[mask[rows]]
            rankings.append(ordered(rows, cosines(query, vectors[rows]), depth))
    return rankings


def cosines(query: NDArray[np.float64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Multiply a query with each vector by itself: equal vectors give equal numbers."""
    scores: NDArray[np.float64] = np.einsum("ij,j->i", vectors.astype(np.float64), query)
    return scores


def _candidates(scores: NDArray[np.float32], depth: int, error: float) -> NDArray[np.intp]:
    """As `candidate_rows`, of scores that may each be wrong by `error`."""
    return candidate_rows(scores + np.float32(error), depth, 2 * error + ROUNDING)
