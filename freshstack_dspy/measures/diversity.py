"""Diversity measures of one query: a nugget that was already supported above is worth less.

Every measure takes `ranking` (the top k), `judged` and `k` as those in `ranking.py` do, and

- alpha: how much of a nugget's worth each repetition takes away, 0 to 1;
- beta: how likely a reader goes on to the next chunk, 0 to 1;

All are as NIST's `ndeval` 4.5 has them, but for
any k. The gain of a chunk is the sum of (1 - alpha)^(times supported above) over the nuggets that
it supports; n is how many nuggets some judged chunk supports. The ideal ranking is built greedily
from the supporting chunks, ties going to the largest id. A greedy ranking is not always the best
one, so what is divided by it can be slightly larger than 1.

Sources: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008 (the
gain and the ideal); Clarke et al., A Comparative Analysis of Cascade Measures for Novelty and
Diversity, WSDM 2011 (normalisation).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Literal

from freshstack_dspy.measures.qrels import Judged, NuggetSet
from freshstack_dspy.measures.ranking import log2_discounted

Gains = list[tuple[int, float]]
"""(rank from 1, gain) of the chunks that support any nugget, best first."""


class _Worth:
    """What each nugget of a query is still worth: 1, and 1 - alpha times that each time."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        self._worth = [1.0] * nuggets
        self._factor = 1 - alpha

    def of(self, nuggets: NuggetSet) -> float:
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


def ranking_gains(ranking: Sequence[str], judged: Judged, alpha: float) -> Gains:
    """Give what each chunk of a ranking adds; those that support nothing are left out."""
    worth = _Worth(judged.nuggets, alpha)
    gains = []
    for rank, nuggets in enumerate(map(judged.supported.get, ranking), start=1):
        if nuggets:
            gains.append((rank, worth.of(nuggets)))
            worth.lower(nuggets)
    return gains


def ideal_gains(judged: Judged, alpha: float, k: int | None) -> Gains:
    """Give the gains of the greedy ideal ranking, to depth k or of all supporting chunks."""
    if (alpha, k) in judged.ideals:
        return judged.ideals[alpha, k]
    worth = _Worth(judged.nuggets, alpha)
    depth = min(k or len(judged.supported), len(judged.supported))
    # One chunk of each kind waits. A gain only ever falls, so a gain that was computed before is an
    # upper bound, and the first one that is still right is the largest.
    waiting = [(-worth.of(nuggets), ids[0], nuggets, 0) for nuggets, ids in judged.kinds.items()]
    heapify(waiting)
    gains = []
    for rank in range(1, depth + 1):
        before, place, nuggets, taken = waiting[0]
        while before != (now := -worth.of(nuggets)):
            heapreplace(waiting, (now, place, nuggets, taken))
            before, place, nuggets, taken = waiting[0]
        gains.append((rank, -before))
        worth.lower(nuggets)
        places = judged.kinds[nuggets]
        if taken + 1 < len(places):
            heapreplace(waiting, (-worth.of(nuggets), places[taken + 1], nuggets, taken + 1))
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
"""The depth that is taken for what a top of so many tokens could reach."""


@lru_cache(maxsize=256)
def _highest(discounted: Callable[[Gains], float], depth: int, alpha: float) -> float:
    """What a nugget adds to a ranking of this depth whose every chunk supports it."""
    return discounted([(rank, (1 - alpha) ** (rank - 1)) for rank in range(1, depth + 1)])


def _over_highest(
    discounted: Callable[[Gains], float],
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    alpha: float,
) -> float:
    gains = ranking_gains(ranking, judged, alpha)
    if not gains:
        return 0.0
    highest = _highest(discounted, k or _DEEP, alpha)
    return discounted(gains) / (len(judged.answerable) * highest)


def _over_ideal(
    discounted: Callable[[Gains], float],
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    alpha: float,
) -> float:
    ideal = discounted(ideal_gains(judged.of, alpha, k))
    return discounted(ranking_gains(ranking, judged, alpha)) / ideal


def alpha_dcg(
    ranking: Sequence[str], judged: Judged, k: int | None, *, alpha: float = 0.5
) -> float:
    """Compute alpha-DCG@k, which does not depend on the chunks there are.

        sum of gain(r) / log2(r + 1) over the ranks r to k,
        divided by n * sum of (1 - alpha)^(r - 1) / log2(r + 1) over the ranks r to k

    At k = 1 `ndeval` leaves the division out and gives the number of nuggets supported.
    """
    return _over_highest(log2_discounted, ranking, judged, k, alpha)


def err_ia(ranking: Sequence[str], judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute intent-aware expected reciprocal rank, ERR-IA@k.

        sum of gain(r) / r over the ranks r to k,
        divided by n * sum of (1 - alpha)^(r - 1) / r over the ranks r to k

    At k = 1 `ndeval` leaves the division out and gives the number of nuggets supported.

    Source: Chapelle et al., Expected Reciprocal Rank for Graded Relevance, CIKM 2009.
    """
    return _over_highest(rank_discounted, ranking, judged, k, alpha)


def alpha_ndcg(
    ranking: Sequence[str], judged: Judged, k: int | None, *, alpha: float = 0.5
) -> float:
    """Compute alpha-nDCG@k: the sum of gain / log2(rank + 1), over that of the ideal ranking.

    Source: Clarke et al., SIGIR 2008; Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, at
    10; Ju et al., CRUX, arXiv 2506.20051, equation 4 (ranked coverage).
    """
    return _over_ideal(log2_discounted, ranking, judged, k, alpha)


def nerr_ia(ranking: Sequence[str], judged: Judged, k: int | None, *, alpha: float = 0.5) -> float:
    """Compute nERR-IA@k: ERR-IA@k over that of the ideal ranking of alpha-nDCG."""
    return _over_ideal(rank_discounted, ranking, judged, k, alpha)


def nrbp(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> float:
    """Compute novelty- and rank-biased precision, NRBP.

        (1 - (1 - alpha) * beta) / n * sum of gain(r) * beta^(r - 1)

    Source: Clarke et al., An Effectiveness Measure for Ambiguous and Underspecified Queries,
    ICTIR 2009.
    """
    reached = patience_discounted(ranking_gains(ranking, judged, alpha), beta)
    return (1 - (1 - alpha) * beta) / len(judged.answerable) * reached


def nnrbp(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> float:
    """Compute nNRBP: NRBP over that of the ideal ranking of alpha-nDCG."""
    return _over_ideal(partial(patience_discounted, beta=beta), ranking, judged, k, alpha)


def precision_ia(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute P-IA@k: the mean over the n nuggets of P@k, the chunks that support it relevant.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009; `P-IA` of `ndeval`.
    """
    found = sum(map(len, filter(None, map(judged.supported.get, ranking))))
    return found / ((k or len(ranking) or 1) * len(judged.answerable))


def average_precision_ia(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute AP-IA: the mean over the n nuggets of AP, the chunks that support it relevant.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009; `MAP-IA` of `ndeval`.
    """
    supporting = Counter(chain.from_iterable(judged.of.supported.values()))
    found: Counter[int] = Counter()
    precisions = []
    for rank, nuggets in enumerate(map(judged.supported.get, ranking), start=1):
        for nugget in nuggets or ():
            found[nugget] += 1
            precisions.append(found[nugget] / rank / supporting[nugget])
    return math.fsum(precisions) / len(supporting)


def coverage(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None,
    *,
    of: Literal["all", "answerable"] = "all",
) -> float | None:
    """Compute Coverage@k: the share of nuggets that a chunk of the top k supports.

    Over the answerable sub-questions, which some judged chunk supports, it is StRecall. None where there is no
    nugget of these.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, equation 1 (all nuggets); of
    the answerable ones Zhai et al., Beyond Independent Relevance, SIGIR 2003 (`strec` of `ndeval`),
    and Ju et al., CRUX, arXiv 2506.20051, equation 3 (Cov).
    """
    nuggets = judged.nuggets if of == "all" else len(judged.answerable)
    if not nuggets:
        return None
    covered = set(chain.from_iterable(filter(None, map(judged.supported.get, ranking))))
    return len(covered) / nuggets
