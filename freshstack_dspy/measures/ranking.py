"""Average precision: how good the precision is, at each relevant chunk."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import compress, count
from typing import Literal

from freshstack_dspy.measures.qrels import GradeRule, Judged


def top(ranking: Sequence[str], k: int | None) -> Sequence[str]:
    """Give the first k chunks of a ranking, or all where k is None.

    Raises:
        ValueError: k is below 1.
    """
    if k is None:
        return ranking
    if k < 1:
        raise ValueError(f"the cut-off k is at least 1, not {k!r}")
    return ranking[:k]


def average_precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute AP@k: the mean of P@rank over the relevant chunks. Its mean is MAP.

    A relevant chunk outside the top k has a precision of 0: the mean is over all relevant chunks,
    not over at most k.

    Source: Harman, Evaluation Issues in Information Retrieval, Information Processing and
    Management 28, 1992; `map` and `map_cut` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    ranks = compress(count(1), map(judged.supported.__contains__, looked_at))
    return math.fsum([found / rank for found, rank in enumerate(ranks, 1)]) / len(judged.supported)


def log2_discounts(depth: int) -> Sequence[float]:
    """Give what the gains of the first ranks are divided by: at place r, log2(r + 1).

    Source: Järvelin and Kekäläinen, TOIS 20(4), 2002, with the discount of Burges et al., Learning
    to Rank using Gradient Descent, ICML 2005, that trec_eval and ndeval have.

    Args:
        depth: The deepest rank that is asked for; place 0 belongs to no rank.
    """
    return _table(max(depth, 127).bit_length())


@cache
def _table(bits: int) -> tuple[float, ...]:
    return (math.nan, *(math.log2(rank + 1) for rank in range(1, 1 << bits)))


def f1(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute F1@k: the harmonic mean of P@k and Recall@k, 2 * found / (k + relevant).

    Source: van Rijsbergen, Information Retrieval, 2nd edition, 1979, chapter 7.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, and it is then how many they are.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    found = sum(map(judged.supported.__contains__, looked_at))
    return 2 * found / ((k or len(looked_at)) + len(judged.supported))


def judged_share(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Judged@k: the share of the top k chunks that have a label for any nugget.

    Where fewer than k were found it is the share of those; 1 minus it is the share of holes.

    Source: `Judged` of ir_measures.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where the ranking is empty.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not looked_at:
        return None
    return sum(map(judged.chunks.__contains__, looked_at)) / len(looked_at)


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


def precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute P@k: how many of the top k chunks support any nugget, divided by k.

    Places that a shorter ranking leaves empty count as not relevant.

    Source: `P` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, divided by how many they are.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    found = sum(map(judged.supported.__contains__, looked_at))
    return found / (k or len(looked_at) or 1)


def r_precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Rprec: P@R, where R is how many chunks support any nugget. It is also Recall@R.

    Source: Buckley and Voorhees, Retrieval System Evaluation, in TREC: Experiment and Evaluation
    in Information Retrieval, 2005; `Rprec` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    relevant = len(judged.supported)
    if not relevant:
        return None
    return sum(map(judged.supported.__contains__, looked_at[:relevant])) / relevant


def recall(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Recall@k: the share of the chunks that support any nugget found in the top k.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3; `recall` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    return sum(map(judged.supported.__contains__, looked_at)) / len(judged.supported)


def reciprocal_rank(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute RR@k: 1 / rank of the first chunk that supports any nugget, or 0. Its mean is MRR.

    Source: Kantor and Voorhees, The TREC-5 Confusion Track, Information Retrieval 2, 2000;
    `recip_rank` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The value, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    for rank, chunk in enumerate(looked_at, start=1):
        if chunk in judged.supported:
            return 1 / rank
    return 0.0


def success(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Success@k: 1 if any of the top k chunks supports any nugget, else 0.

    Source: `success` of trec_eval. Some call this recall or hit rate.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        1 or 0, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    return float(any(map(judged.supported.__contains__, looked_at)))
