"""The best rows of a score array, in the one order of this program."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A sum of products depends, in its last digits, on the machine's vector units and on a row's place
# in a block of a matrix product. Unrounded, chunks of equal text would stand in another order on
# another machine, other chunks would be pooled, and recorded replies would not be found.
SCORE_DECIMALS = 6
ROUNDING = 10.0**-SCORE_DECIMALS
"""Scores that are further apart than this stay apart when they are rounded."""


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
    candidates = candidate_rows(scores, depth, ROUNDING)
    return ordered(candidates, scores[candidates], depth)


def candidate_rows(scores: NDArray[np.floating], depth: int, margin: float) -> NDArray[np.intp]:
    """Give the rows of positive score that may be among the best, in order.

    Args:
        scores: One score per row, shape (rows,).
        depth: How many rows are wanted.
        margin: How far below the last of the best a score may lie.
    """
    found = np.flatnonzero(scores > 0)
    if len(found) <= depth:
        return found
    positive = scores[found]
    close = positive >= np.partition(positive, -depth)[-depth] - margin
    return np.asarray(found[close])


def ordered(rows: NDArray[np.intp], scores: NDArray[np.float64], depth: int) -> list[RowScore]:
    """Rank candidates by their rounded scores; those of no score are left out.

    Args:
        rows: In ascending order.
        scores: One for each of these rows.
        depth: How many rows to give at most.
    """
    rounded = np.round(scores, SCORE_DECIMALS)
    order = np.argsort(-rounded, kind="stable")[:depth]
    order = order[rounded[order] > 0]
    return list(map(RowScore, rows[order].tolist(), rounded[order].tolist()))
