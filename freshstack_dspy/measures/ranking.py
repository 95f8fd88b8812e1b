"""Relevance measures of one query; a chunk is relevant if it supports any of the query's nuggets.

Every measure takes

- ranking: the top k chunk ids, best first, each once;
- judged: the judgments of the query; some chunk is relevant, but for Judged;
- k: how many chunks were looked at, at least 1; None: all;

and gives a number from 0 to 1. `Measure` cuts the ranking, and has no value where nothing is
relevant.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import compress, count
from typing import Literal

from freshstack_dspy.measures.qrels import GradeRule, Judged


def _found(ranking: Sequence[str], judged: Judged) -> int:
    return sum(map(judged.supported.__contains__, ranking))


def _brought(ranking: Sequence[str], judged: Judged) -> int:
    """How many relevant chunks of the collection are found."""
    return _found(ranking, judged) if judged.of is judged else sum(map(judged.finds, ranking))


def precision(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute P@k: the relevant chunks of the top k, divided by k, however many were retrieved.

    Source: `P` of trec_eval.
    """
    return _found(ranking, judged) / (k or len(ranking) or 1)


def recall(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute Recall@k: the share of the relevant chunks that are in the top k.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3; `recall` of trec_eval.
    """
    return _brought(ranking, judged) / judged.relevant


def f1(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute F1@k: the harmonic mean of P@k and Recall@k, 2 * found / (k + relevant).

    Source: van Rijsbergen, Information Retrieval, 2nd edition, 1979, chapter 7.
    """
    relevant, found = _found(ranking, judged), _brought(ranking, judged)
    both = (k or len(ranking)) * found + judged.relevant * relevant
    return 2 * relevant * found / both if both else 0.0


def success(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute Success@k: 1 if any of the top k chunks is relevant, else 0. Some say hit rate.

    Source: `success` of trec_eval.
    """
    return float(_found(ranking, judged) > 0)


def reciprocal_rank(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute RR@k: 1 / rank of the first relevant chunk, or 0. Its mean is MRR.

    Source: Kantor and Voorhees, The TREC-5 Confusion Track, Information Retrieval 2, 2000;
    `recip_rank` of trec_eval.
    """
    ranks = (rank for rank, chunk in enumerate(ranking, 1) if chunk in judged.supported)
    first = next(ranks, None)
    return 1 / first if first else 0.0


def r_precision(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute Rprec: P@R, where R is how many chunks are relevant. It is also Recall@R.

    Source: Buckley and Voorhees, Retrieval System Evaluation, in TREC: Experiment and Evaluation
    in Information Retrieval, 2005; `Rprec` of trec_eval.
    """
    return _found(ranking[: judged.relevant], judged) / judged.relevant


def average_precision(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute AP@k: the mean of P@rank over all relevant chunks, 0 for those outside the top k.

    Source: Harman, Evaluation Issues in Information Retrieval, Information Processing and
    Management 28, 1992; `map` and `map_cut` of trec_eval.
    """
    ranks = compress(enumerate(ranking, 1), map(judged.supported.__contains__, ranking))
    precisions = [
        judged.finds(chunk) * found / rank for found, (rank, chunk) in enumerate(ranks, 1)
    ]
    return math.fsum(precisions) / judged.relevant


def bpref(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute bpref: how few chunks judged not relevant are above the relevant ones.

        1 / R * sum over found relevant chunks of 1 - min(n, R) / min(N, R)

    with R relevant chunks, N judged not relevant, n of these above. Unjudged chunks do not count,
    nor do those with a label below 0.

    Source: Buckley and Voorhees, Retrieval Evaluation with Incomplete Information, SIGIR 2004;
    `bpref` of trec_eval.
    """
    relevant = judged.relevant
    at_most = max(1, min(len(judged.of.not_relevant), relevant))
    above = 0
    gains = []
    for chunk in ranking:
        if chunk in judged.supported:
            gains.append(judged.finds(chunk) * (1 - min(above, at_most) / at_most))
        elif chunk in judged.not_relevant:
            above += 1
    return math.fsum(gains) / relevant


def rbp(ranking: Sequence[str], judged: Judged, k: int | None, *, p: float = 0.8) -> float:
    """Compute RBP: the sum over relevant chunks of (1 - p) * p^(rank - 1).

    Source: Moffat and Zobel, Rank-Biased Precision for Measurement of Retrieval Effectiveness,
    TOIS 27(1), 2008; `RBP` of ir_measures. p is how likely a reader goes on to the next chunk.
    """
    places = compress(count(), map(judged.supported.__contains__, ranking))
    return (1 - p) * math.fsum([p**place for place in places])


def judged_share(ranking: Sequence[str], judged: Judged, k: int | None) -> float | None:
    """Compute Judged@k: the share of the top k chunks that are judged.

    Where fewer than k were found it is the share of those; None where the ranking is empty.

    Source: `Judged` of ir_measures.
    """
    return sum(map(judged.chunks.__contains__, ranking)) / len(ranking) if ranking else None


def ndcg(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    *,
    dcg: Literal["log2", "exp-log2"] = "log2",
    grade: GradeRule = "count",
) -> float:
    """Compute nDCG@k: sum of gain / log2(rank + 1), as a share of that of the best ranking.

    The best ranking has all judged chunks by grade, whether or not they were found. Labels below
    `rel`, negative ones too, and chunks without a label gain nothing.

    Source: Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR Techniques, TOIS 20(4),
    2002, with the discount of trec_eval (`ndcg`, `ndcg_cut`); `exp-log2`: Burges et al., Learning
    to Rank using Gradient Descent, ICML 2005.

    The gain of a grade g is g itself (`log2`), or 2^g - 1 (`exp-log2`). `grade` is how a chunk's
    labels for the nuggets become its grade: the `count` of nuggets that it supports, their `sum`,
    or the `max`. Of plain qrels each is the grade in the file.
    """
    grades, ideal = judged.grades(grade), judged.of.grades(grade)
    found = [(rank, g) for rank, g in enumerate(map(grades.get, ranking), 1) if g]
    highest = max(ideal.values())
    exponential = dcg == "exp-log2"
    best = list(enumerate(sorted(ideal.values(), reverse=True)[:k], 1))
    return _dcg(found, highest, exponential) / _dcg(best, highest, exponential)


def _dcg(grades: list[tuple[int, int]], highest: int, exponential: bool) -> float:
    """Add up discounted gains of (rank, grade); exponential ones as a share of 2^highest.

    That changes no digit of their ratio, and a sum of many labels stays within a float.
    """
    if not exponential:
        return log2_discounted(grades)
    one = math.ldexp(1.0, -highest)
    return log2_discounted([(rank, math.ldexp(1.0, g - highest) - one) for rank, g in grades])


def log2_discounted(gains: Iterable[tuple[int, float]]) -> float:
    """Add up gains of (rank, gain), each divided by log2(rank + 1); the sum is exactly rounded."""
    gains = list(gains)
    discounts = _discounts(max(gains[-1][0] if gains else 0, 127).bit_length())
    return math.fsum([gain / discounts[rank] for rank, gain in gains])


@cache
def _discounts(bits: int) -> tuple[float, ...]:
    return (math.nan, *(math.log2(rank + 1) for rank in range(1, 1 << bits)))
