"""Exact nearest neighbours among the vectors of a corpus."""

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.ranking import RowScore, best_rows

_SCORES_AT_ONCE = 8_000_000


def nearest(
    queries: NDArray[np.float64], vectors: NDArray[np.float64], depth: int
) -> list[list[RowScore]]:
    """Rank rows by cosine for each query; rows of no or negative cosine are not found.

    Args:
        queries: Shape (queries, dimensions), rows of length 1 or 0.
        vectors: Shape (rows, dimensions), rows of length 1 or 0.
        depth: How many rows to give at most.
    """
    step = max(1, _SCORES_AT_ONCE // len(vectors))
    return [
        best_rows(scores, depth)
        for start in range(0, len(queries), step)
        for scores in queries[start : start + step] @ vectors.T
    ]
