"""The best rows of a score array, in the one order of this program."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A sum of products depends, in its last digits, on the machine's vector units and on a row's place
# in a block of a matrix product. Unrounded, chunks of equal text would stand in another order on
# another machine, other chunks would be pooled, and recorded replies would not be found.
SCORE_DECIMALS = 6


class RowScore(NamedTuple):
    """One entry of a ranking of rows."""

    row: int
    score: float


def best_rows(scores: NDArray[np.float64], depth: int) -> list[RowScore]:
    """Rank the rows of positive score.

    Args:
        scores: One score per row, shape (rows,); rounded here.
        depth: How many rows to give at most.

    Returns:
        Rows by score descending, then by row ascending.
    """
    rounded = np.round(scores, SCORE_DECIMALS)
    found = np.flatnonzero(rounded > 0)
    if len(found) > depth:
        threshold = np.partition(rounded[found], -depth)[-depth]
        found = found[rounded[found] >= threshold]
    order = found[np.argsort(-rounded[found], kind="stable")][:depth]
    return [RowScore(int(row), float(rounded[row])) for row in order]
