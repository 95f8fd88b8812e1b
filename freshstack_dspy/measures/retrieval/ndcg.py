"""nDCG: how much of the best chunks a ranking has, and how far up."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from freshstack_dspy.measures.judged import GradeRule, Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.discount import log2_discounts


def ndcg(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None = None,
    *,
    dcg: Literal["log2", "exp-log2"] = "log2",
    grade: GradeRule = "sum",
) -> float | None:
    """Compute nDCG@k: sum of gain / log2(rank + 1), as a share of that of the best ranking.

    The best ranking has all judged chunks by grade, whether or not they were found. Labels below
    `rel`, negative ones too, and chunks without a label gain nothing.

    Source: Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR Techniques, TOIS 20(4),
    2002, with the discount of trec_eval (`ndcg`, `ndcg_cut`); `exp-log2`: Burges et al., Learning
    to Rank using Gradient Descent, ICML 2005.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        dcg: The gain of a grade g: g itself (`log2`), or 2^g - 1 (`exp-log2`).
        grade: How a chunk's labels for the nuggets become its grade: their `sum`, the `count` of
            nuggets that it supports, or the `max`.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1, or `dcg` or `grade` is none of those.
    """
    looked_at = top(ranking, k)
    if dcg not in ("log2", "exp-log2"):
        raise ValueError(f"dcg is 'log2' or 'exp-log2', not {dcg!r}")
    if grade not in ("sum", "count", "max"):
        raise ValueError(f"grade is 'sum', 'count' or 'max', not {grade!r}")
    grades = judged.grades(grade)
    if not grades:
        return None
    best = sorted(grades.values(), reverse=True)
    exponential = dcg == "exp-log2"
    found = [
        (rank, reached)
        for rank, reached in enumerate(map(grades.get, looked_at), start=1)
        if reached
    ]
    highest = best[0]
    return _dcg(found, highest, exponential) / _dcg(enumerate(best[:k], 1), highest, exponential)


def _dcg(grades: Iterable[tuple[int, int]], highest: int, exponential: bool) -> float:
    """Add up discounted gains of (rank, grade).

    Exponential gains are made smaller by a power of two, 2^highest, which changes no digit of
    their ratios: a grade that sums up many labels is else soon too large for a number.
    """
    grades = list(grades)
    discounts = log2_discounts(grades[-1][0] if grades else 0)
    if not exponential:
        return math.fsum([grade / discounts[rank] for rank, grade in grades])
    one = math.ldexp(1.0, -highest)
    return math.fsum(
        [(math.ldexp(1.0, grade - highest) - one) / discounts[rank] for rank, grade in grades]
    )
