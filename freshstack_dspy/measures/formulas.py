"""The measures of one query: a chunk is relevant if it supports any of the query's nuggets.

Every measure takes

- ranking: the top k chunk ids, best first, each once;
- judged: the judgments of the query, with a relevant chunk (except for Judged and Coverage);
- k: how many chunks were looked at, at least 1; None: all;

and gives a number from 0 to 1. `Measure` cuts the ranking, and has no value if nothing is relevant.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from heapq import heapify, heappop, heapreplace
from itertools import chain, compress, count
from typing import Literal

from freshstack_dspy.measures.qrels import GradeRule, Judged, NuggetSet

Ranking = Sequence[str]
Gains = list[tuple[int, float]]
"""(rank from 1, gain) of the chunks that gain anything, best first."""

# Relevance


def _found(ranking: Ranking, judged: Judged) -> int:
    return len(judged.supported.keys() & ranking)


def _brought(ranking: Ranking, judged: Judged) -> int:
    """How many relevant chunks of the collection are found."""
    return (
        _found(ranking, judged) if judged.reference is judged else sum(map(judged.finds, ranking))
    )


def precision(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute P@k: the relevant chunks of the top k, divided by k, however many were retrieved.

    Source: `P` of trec_eval.
    """
    return _found(ranking, judged) / (k or len(ranking) or 1)


def recall(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute Recall@k: the share of the relevant chunks that are in the top k.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3; `recall` of trec_eval.
    """
    return _brought(ranking, judged) / judged.relevant


def f1(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute F1@k: the harmonic mean of P@k and Recall@k, 2 * found / (k + relevant).

    Source: van Rijsbergen, Information Retrieval, 2nd edition, 1979, chapter 7.
    """
    relevant, brought = _found(ranking, judged), _brought(ranking, judged)
    both = (k or len(ranking)) * brought + judged.relevant * relevant
    return 2 * relevant * brought / both if both else 0.0


def success(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute Success@k: 1 if any of the top k chunks is relevant, else 0. It is also called hit rate.

    Source: `success` of trec_eval.
    """
    return float(_found(ranking, judged) > 0)


def reciprocal_rank(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute RR@k: 1 / rank of the first relevant chunk, or 0. Its mean is MRR.

    Source: Kantor and Voorhees, The TREC-5 Confusion Track, Information Retrieval 2, 2000;
    `recip_rank` of trec_eval.
    """
    return next((1 / rank for rank, id_ in enumerate(ranking, 1) if id_ in judged.supported), 0.0)


def r_precision(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute Rprec: P@R, where R is how many chunks are relevant. It is also Recall@R.

    Source: Buckley and Voorhees, Retrieval System Evaluation, in TREC: Experiment and Evaluation
    in Information Retrieval, 2005; `Rprec` of trec_eval.
    """
    return _found(ranking[: judged.relevant], judged) / judged.relevant


def average_precision(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute AP@k: the mean of P@rank over all relevant chunks, 0 for those outside the top k.

    Source: Harman, Evaluation Issues in Information Retrieval, Information Processing and
    Management 28, 1992; `map` and `map_cut` of trec_eval.
    """
    ranks = compress(enumerate(ranking, 1), map(judged.supported.__contains__, ranking))
    precisions = [
        judged.finds(chunk) * number / rank for number, (rank, chunk) in enumerate(ranks, 1)
    ]
    return math.fsum(precisions) / judged.relevant


def bpref(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute bpref: how few chunks judged not relevant are above the relevant ones.

        1 / R * sum over found relevant chunks of 1 - min(n, R) / min(N, R)

    with R relevant chunks, N judged not relevant, n of these above. Unjudged chunks do not count,
    nor do those with a label below 0.

    Source: Buckley and Voorhees, Retrieval Evaluation with Incomplete Information, SIGIR 2004;
    `bpref` of trec_eval.
    """
    at_most = max(1, min(len(judged.reference.not_relevant), judged.relevant))
    above, gains = 0, []
    for chunk in ranking:
        if chunk in judged.supported:
            gains.append(judged.finds(chunk) * (1 - min(above, at_most) / at_most))
        elif chunk in judged.not_relevant:
            above += 1
    return math.fsum(gains) / judged.relevant


def rbp(ranking: Ranking, judged: Judged, k: int | None, *, p: float = 0.8) -> float:
    """Compute RBP: the sum over relevant chunks of (1 - p) * p^(rank - 1).

    Source: Moffat and Zobel, Rank-Biased Precision for Measurement of Retrieval Effectiveness,
    TOIS 27(1), 2008; `RBP` of ir_measures. p is the chance that a reader goes on to the next chunk.
    """
    places = compress(count(), map(judged.supported.__contains__, ranking))
    return (1 - p) * math.fsum([p**place for place in places])


def judged_share(ranking: Ranking, judged: Judged, k: int | None) -> float | None:
    """Compute Judged@k: the share of the top k chunks that are judged.

    A ranking with fewer than k chunks counts as a whole; None if it is empty.

    Source: `Judged` of ir_measures.
    """
    return sum(map(judged.chunks.__contains__, ranking)) / len(ranking) if ranking else None


def ndcg(
    ranking: Ranking,
    judged: Judged,
    k: int | None,
    *,
    dcg: Literal["log2", "exp-log2"] = "log2",
    grade: GradeRule = "count",
) -> float:
    """Compute nDCG@k: sum of gain / log2(rank + 1), as a share of that of the best ranking.

    The best ranking has all judged chunks by grade, whether or not they were found. Labels below
    `rel`, negative ones too, and chunks without a label gain nothing.

    The gain of a grade g is g itself (`log2`), or 2^g - 1 (`exp-log2`). `grade` is how a chunk's
    labels for the nuggets become its grade: the `count` of nuggets that it supports, their `sum`,
    or the `max`. For plain qrels, all three are the grade in the file.

    Source: Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR Techniques, TOIS 20(4),
    2002, with the discount of trec_eval (`ndcg`, `ndcg_cut`); `exp-log2`: Burges et al., Learning
    to Rank using Gradient Descent, ICML 2005.
    """
    grades, ideal = (
        judged.grades(grade),
        sorted(judged.reference.grades(grade).values(), reverse=True),
    )
    gained = [(rank, g) for rank, g in enumerate(map(grades.get, ranking), 1) if g]
    best, highest = list(enumerate(ideal[:k], 1)), ideal[0]
    if dcg == "log2":
        return log2_discounted(gained) / log2_discounted(best)

    def gain(grade: int) -> float:
        """A share of 2^highest, so that a sum of many labels stays within a float."""
        return math.ldexp(1.0, grade - highest) - math.ldexp(1.0, -highest)

    exponential = ([(rank, gain(g)) for rank, g in graded] for graded in (gained, best))
    return log2_discounted(next(exponential)) / log2_discounted(next(exponential))


def log2_discounted(gains: Sequence[tuple[int, float]]) -> float:
    """Add up gains of (rank, gain), each divided by log2(rank + 1); the sum is exactly rounded."""
    discounts = _discounts(max(gains[-1][0] if gains else 0, 127).bit_length())
    return math.fsum([gain / discounts[rank] for rank, gain in gains])


@cache
def _discounts(bits: int) -> tuple[float, ...]:
    return (math.nan, *(math.log2(rank + 1) for rank in range(1, 1 << bits)))


# Diversity: a nugget that was already supported above is worth less. All follow NIST's `ndeval` 4.5,
# for any k. alpha, from 0 to 1, is how much of a nugget's worth each repetition takes away.
# The gain of a chunk is the sum of (1 - alpha)^(times supported above) over the nuggets that
# it supports; n is how many nuggets some judged chunk supports. The ideal ranking is built greedily
# from the supporting chunks, ties going to the largest id. A greedy ranking is not always the best
# one, so values that are divided by it can slightly exceed 1.
#
# Sources: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008 (the
# gain and the ideal); Clarke et al., A Comparative Analysis of Cascade Measures for Novelty and
# Diversity, WSDM 2011 (normalisation).


class _Worth:
    """What each nugget of a query is still worth: 1, times 1 - alpha for each chunk above."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        self._worth = [1.0] * nuggets
        self._factor = 1 - alpha

    def total(self, nuggets: NuggetSet) -> float:
        """Add up what nuggets are worth; the sum is exactly rounded, in any order."""
        worth = self._worth
        if len(nuggets) == 1:
            return worth[nuggets[0]]
        if len(nuggets) == 2:
            return worth[nuggets[0]] + worth[nuggets[1]]
        return math.fsum([worth[place] for place in nuggets])

    def lower(self, nuggets: NuggetSet) -> None:
        for place in nuggets:
            self._worth[place] *= self._factor


def ranking_gains(ranking: Ranking, judged: Judged, alpha: float) -> Gains:
    """Give what each chunk of a ranking adds; those that support nothing are left out."""
    worth, gains = _Worth(judged.nuggets, alpha), []
    for rank, nuggets in enumerate(map(judged.supported.get, ranking), start=1):
        if nuggets:
            gains.append((rank, worth.total(nuggets)))
            worth.lower(nuggets)
    return gains


def ideal_gains(judged: Judged, alpha: float, k: int | None) -> Gains:
    """Give the gains of the greedy ideal ranking, to depth k or of all supporting chunks."""
    if (alpha, k) in judged.ideals:
        return judged.ideals[alpha, k]
    worth = _Worth(judged.nuggets, alpha)
    # One chunk of each kind waits. A gain only ever falls, so a gain that was computed before is an
    # upper bound, and the first one that is still right is the largest. At first each nugget is 1.
    waiting = [(-float(len(nuggets)), ids[0], nuggets, 0) for nuggets, ids in judged.kinds.items()]
    heapify(waiting)
    gains: Gains = []
    while waiting and len(gains) != k:
        before, place, nuggets, taken = waiting[0]
        while before != (now := -worth.total(nuggets)):
            heapreplace(waiting, (now, place, nuggets, taken))
            before, place, nuggets, taken = waiting[0]
        gains.append((len(gains) + 1, -before))
        worth.lower(nuggets)
        places = judged.kinds[nuggets]
        if taken + 1 < len(places):
            heapreplace(waiting, (-worth.total(nuggets), places[taken + 1], nuggets, taken + 1))
        else:
            heappop(waiting)
    judged.ideals[alpha, k] = gains
    return gains


def rank_discounted(gains: Iterable[tuple[int, float]]) -> float:
    """Add up gains, each divided by its rank; the sum is exactly rounded."""
    return math.fsum([gain / rank for rank, gain in gains])


def patience_discounted(gains: Iterable[tuple[int, float]], beta: float) -> float:
    """Add up gains, each times beta^(rank - 1); the sum is exactly rounded."""
    return math.fsum([gain * beta ** (rank - 1) for rank, gain in gains])


_DEEP = 1000
"""The depth that is assumed where the cut-off is in tokens."""


@lru_cache(maxsize=256)
def _highest(discounted: Callable[[Gains], float], depth: int, alpha: float) -> float:
    """What a nugget adds to a ranking of this depth in which every chunk supports it."""
    return discounted([(rank, (1 - alpha) ** (rank - 1)) for rank in range(1, depth + 1)])


def alpha_dcg(ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute alpha-DCG@k, which does not depend on an ideal ranking.

        sum of gain(r) / log2(r + 1) over the ranks r to k,
        divided by n * sum of (1 - alpha)^(r - 1) / log2(r + 1) over the ranks r to k

    At k = 1 `ndeval` leaves the division out and gives the number of nuggets supported.
    """
    highest = len(judged.answerable) * _highest(log2_discounted, k or _DEEP, alpha)
    return log2_discounted(ranking_gains(ranking, judged, alpha)) / highest


def err_ia(ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute intent-aware expected reciprocal rank, ERR-IA@k: alpha-DCG@k, discounted by rank.

    Source: Chapelle et al., Expected Reciprocal Rank for Graded Relevance, CIKM 2009.
    """
    highest = len(judged.answerable) * _highest(rank_discounted, k or _DEEP, alpha)
    return rank_discounted(ranking_gains(ranking, judged, alpha)) / highest


def _over_ideal(
    discounted: Callable[[Gains], float],
    ranking: Ranking,
    judged: Judged,
    k: int | None,
    alpha: float,
) -> float:
    ideal = discounted(ideal_gains(judged.reference, alpha, k))
    return discounted(ranking_gains(ranking, judged, alpha)) / ideal


def alpha_ndcg(ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute alpha-nDCG@k: the sum of gain / log2(rank + 1), over that of the ideal ranking.

    Source: Clarke et al., SIGIR 2008; Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, at
    10; Ju et al., CRUX, arXiv 2506.20051, equation 4 (ranked coverage).
    """
    return _over_ideal(log2_discounted, ranking, judged, k, alpha)


def nerr_ia(ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute nERR-IA@k: ERR-IA@k over that of the ideal ranking of alpha-nDCG."""
    return _over_ideal(rank_discounted, ranking, judged, k, alpha)


def nrbp(
    ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5, beta: float = 0.5
) -> float:
    """Compute novelty- and rank-biased precision, NRBP.

        (1 - (1 - alpha) * beta) / n * sum of gain(r) * beta^(r - 1)

    beta, from 0 to 1, is how likely a reader goes on to the next chunk.

    Source: Clarke et al., An Effectiveness Measure for Ambiguous and Underspecified Queries,
    ICTIR 2009.
    """
    reached = patience_discounted(ranking_gains(ranking, judged, alpha), beta)
    return (1 - (1 - alpha) * beta) / len(judged.answerable) * reached


def nnrbp(
    ranking: Ranking, judged: Judged, k: int | None, *, alpha: float = 0.5, beta: float = 0.5
) -> float:
    """Compute nNRBP: NRBP over that of the ideal ranking of alpha-nDCG."""
    return _over_ideal(partial(patience_discounted, beta=beta), ranking, judged, k, alpha)


def precision_ia(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute P-IA@k: the mean over the n nuggets of P@k, where chunks that support it are relevant.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009; `P-IA` of `ndeval`.
    """
    supports = sum(map(len, filter(None, map(judged.supported.get, ranking))))
    return supports / ((k or len(ranking) or 1) * len(judged.answerable))


def average_precision_ia(ranking: Ranking, judged: Judged, k: int | None) -> float:
    """Compute AP-IA: the mean over the n nuggets of AP, where chunks that support it are relevant.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009; `MAP-IA` of `ndeval`.
    """
    supporting = Counter(chain.from_iterable(judged.reference.supported.values()))
    seen: Counter[int] = Counter()
    precisions = []
    for rank, nuggets in enumerate(map(judged.supported.get, ranking), start=1):
        for nugget in nuggets or ():
            seen[nugget] += 1
            precisions.append(seen[nugget] / rank / supporting[nugget])
    return math.fsum(precisions) / len(supporting)


def coverage(
    ranking: Ranking,
    judged: Judged,
    k: int | None,
    *,
    of: Literal["all", "answerable"] = "all",
) -> float | None:
    """Compute Coverage@k: the share of nuggets that a chunk of the top k supports.

    Over the answerable nuggets, which some judged chunk supports, it is StRecall. None if there are
    no such nuggets.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, equation 1 (all nuggets); for
    the answerable ones, Zhai et al., Beyond Independent Relevance, SIGIR 2003 (`strec` of
    `ndeval`), and Ju et al., CRUX, arXiv 2506.20051, equation 3 (Cov).
    """
    nuggets = judged.nuggets if of == "all" else len(judged.answerable)
    if not nuggets:
        return None
    covered = set(chain.from_iterable(filter(None, map(judged.supported.get, ranking))))
    return len(covered) / nuggets
