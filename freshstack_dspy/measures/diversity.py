"""alpha-DCG: discounted gains with repetition worth less, before it is set against an ideal."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Literal, NamedTuple

from freshstack_dspy.measures.qrels import Judged, NuggetSet
from freshstack_dspy.measures.ranking import log2_discounts, top


class RankGain(NamedTuple):
    """What the chunk at a rank, from 1, adds."""

    rank: int
    gain: float


def ranking_gains(ranking: Sequence[str], judged: Judged, alpha: float) -> list[RankGain]:
    """Give what each chunk of a ranking adds, best first; those that support nothing are left out.

    The gain of a chunk is the sum of (1 - alpha)^(times told above) over the nuggets it supports.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008;
    Ju et al., CRUX, arXiv 2506.20051, equation 4.

    Raises:
        ValueError: alpha is outside 0 to 1.
    """
    worth = _Worth(judged.nuggets, alpha)
    return [
        RankGain(rank, worth.take(told))
        for rank, told in enumerate(map(judged.supported.get, ranking), start=1)
        if told
    ]


def ideal_gains(judged: Judged, alpha: float, k: int | None) -> list[RankGain]:
    """Give the gains of the greedy ideal ranking, to depth k or of all chunks that support any.

    Each step takes the chunk that adds most, of equals the one with the largest id, as `ndeval`
    does. The best ranking is NP-hard to find, and can be a little better.

    Source: Clarke et al., SIGIR 2008, on computing the ideal gain; the ties: `ndeval` 4.5.

    Raises:
        ValueError: alpha is outside 0 to 1.
    """
    worth = _Worth(judged.nuggets, alpha)
    depth = len(judged.supported) if k is None else min(k, len(judged.supported))
    # One chunk of each kind waits. What it adds only ever falls, so what was worked out before is
    # at least that, and the first whose figure is still right is the best.
    waiting = [(-worth.of(told), places[0], told, 0) for told, places in judged.kinds.items()]
    heapify(waiting)
    gains = []
    for rank in range(1, depth + 1):
        before, place, told, taken = waiting[0]
        while before != (now := -worth.of(told)):
            heapreplace(waiting, (now, place, told, taken))
            before, place, told, taken = waiting[0]
        gains.append(RankGain(rank, -before))
        worth.lower(told)
        places = judged.kinds[told]
        if taken + 1 < len(places):
            heapreplace(waiting, (-worth.of(told), places[taken + 1], told, taken + 1))
        else:
            heappop(waiting)
    return gains


class _Worth:
    """What each nugget of a query is still worth: 1, and 1 - alpha times that each time told."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is between 0 and 1, not {alpha!r}")
        self._left = [1.0] * nuggets
        self._kept = 1 - alpha

    def of(self, told: NuggetSet) -> float:
        """Add up what these nuggets are worth, exactly, so that their order is of no account."""
        left = self._left
        if len(told) == 1:
            return left[told[0]]
        if len(told) == 2:
            return left[told[0]] + left[told[1]]
        return math.fsum([left[place] for place in told])

    def lower(self, told: NuggetSet) -> None:
        """Make each of these nuggets worth less."""
        for place in told:
            self._left[place] *= self._kept

    def take(self, told: NuggetSet) -> float:
        """Give what these nuggets are worth, and lower it for the next."""
        gain = self.of(told)
        self.lower(told)
        return gain


def alpha_dcg(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, alpha: float = 0.5
) -> float | None:
    """Compute alpha-DCG@k, as `ndeval` does but for any k.

        sum of gain(r) / log2(r + 1) over the ranks r to k,
        divided by n * sum of (1 - alpha)^(r - 1) / log2(r + 1) over the ranks r to k

    where n is how many nuggets some judged chunk supports. What it is divided by does not depend on
    the chunks there are: it is what a ranking would reach whose every chunk supports all n.
    At k = 1 `ndeval` leaves the division out and gives the number of nuggets that are told.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008;
    the division: Clarke et al., A Comparative Analysis of Cascade Measures for Novelty and
    Diversity, WSDM 2011, as `ndeval` 4.5 has it.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as if k were the length of the ranking.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    gains = ranking_gains(top(ranking, k), judged, alpha)
    if not judged.supported:
        return None
    highest = len(judged.answerable) * _all_told(len(ranking) if k is None else k, alpha)
    return log2_discounted(gains) / highest if gains else 0.0


def log2_discounted(gains: Iterable[RankGain]) -> float:
    """Add up gains, each divided by log2(rank + 1); the sum is exactly rounded."""
    gains = list(gains)
    discounts = log2_discounts(gains[-1].rank if gains else 0)
    return math.fsum([gain / discounts[rank] for rank, gain in gains])


@lru_cache(maxsize=128)
def _all_told(depth: int, alpha: float) -> float:
    return math.fsum(
        (1 - alpha) ** (rank - 1) / math.log2(rank + 1) for rank in range(1, depth + 1)
    )


def alpha_ndcg(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, alpha: float = 0.5
) -> float | None:
    """Compute alpha-nDCG@k, as `ndeval` and `pyndeval` do but for any k.

    The gain of a chunk is the sum of (1 - alpha)^(times told above) over the nuggets it
    supports, discounted by log2(rank + 1); the ideal ranking is built greedily from the supporting
    chunks, ties going to the largest id. A greedy ranking is not always the best one, so a value
    can be slightly larger than 1.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008;
    Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, at 10; Ju et al., CRUX, arXiv
    2506.20051, equation 4 (ranked coverage).

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    gains = ranking_gains(top(ranking, k), judged, alpha)
    if not judged.supported:
        return None
    return log2_discounted(gains) / log2_discounted(ideal_gains(judged, alpha, k))


def average_precision_ia(
    ranking: Sequence[str], judged: Judged, k: int | None = None
) -> float | None:
    """Compute AP-IA: the mean of AP over the nuggets that some judged chunk supports.

    For one nugget only the chunks that support it are relevant. All nuggets weigh the same.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009, on intent-aware measures;
    `MAP-IA` of `ndeval`.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    supporting = Counter(chain.from_iterable(judged.supported.values()))
    found: Counter[int] = Counter()
    precisions = []
    for rank, told in enumerate(map(judged.supported.get, looked_at), start=1):
        for nugget in told or ():
            found[nugget] += 1
            precisions.append(found[nugget] / rank / supporting[nugget])
    return math.fsum(precisions) / len(supporting)


def coverage(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None = None,
    *,
    of: Literal["all", "answerable"] = "all",
) -> float | None:
    """Compute Coverage@k: the share of nuggets that a chunk of the top k supports.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, equation 1 (all nuggets); Ju
    et al., CRUX, arXiv 2506.20051, equation 3 (answerable ones, as Cov).

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        of: `all` nuggets of the query (FreshStack), or only the `answerable` ones, which some
            judged chunk supports (CRUX).

    Returns:
        The share, 0 to 1, or None where there is no nugget to cover.

    Raises:
        ValueError: k is below 1 or `of` is neither.
    """
    looked_at = top(ranking, k)
    if of not in ("all", "answerable"):
        raise ValueError(f"of is 'all' or 'answerable', not {of!r}")
    nuggets = judged.nuggets if of == "all" else len(judged.answerable)
    if not nuggets:
        return None
    covered = set(chain.from_iterable(filter(None, map(judged.supported.get, looked_at))))
    return len(covered) / nuggets


def err_ia(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, alpha: float = 0.5
) -> float | None:
    """Compute intent-aware expected reciprocal rank, ERR-IA@k, as `ndeval` does but for any k.

        sum of gain(r) / r over the ranks r to k,
        divided by n * sum of (1 - alpha)^(r - 1) / r over the ranks r to k

    The gain is that of alpha-nDCG: a reader who wants a nugget is content with a chunk that
    supports it with probability alpha. All n nuggets that some judged chunk supports are wanted
    with probability 1 / n. The sum it is divided by does not depend on the chunks there are.
    At k = 1 `ndeval` leaves the division out and gives the number of nuggets that are told.

    Source: Chapelle et al., Expected Reciprocal Rank for Graded Relevance, CIKM 2009, for
    binary labels; the division: Clarke et al., A Comparative Analysis of Cascade Measures for
    Novelty and Diversity, WSDM 2011, as `ndeval` 4.5 has it.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as if k were the length of the ranking.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    gains = ranking_gains(top(ranking, k), judged, alpha)
    if not judged.supported:
        return None
    highest = len(judged.answerable) * _all_told_err_ia(len(ranking) if k is None else k, alpha)
    return rank_discounted(gains) / highest if gains else 0.0


def rank_discounted(gains: Iterable[RankGain]) -> float:
    """Add up gains, each divided by its rank; the sum is exactly rounded."""
    return math.fsum([gain / rank for rank, gain in gains])


@lru_cache(maxsize=128)
def _all_told_err_ia(depth: int, alpha: float) -> float:
    return math.fsum((1 - alpha) ** (rank - 1) / rank for rank in range(1, depth + 1))


def nerr_ia(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, alpha: float = 0.5
) -> float | None:
    """Compute nERR-IA@k, as `ndeval` does but for any k: ERR-IA@k over that of the ideal ranking.

    The ideal ranking is that of alpha-nDCG, so a value can be slightly larger than 1.

    Source: Clarke et al., A Comparative Analysis of Cascade Measures for Novelty and Diversity,
    WSDM 2011, as `ndeval` 4.5 has it.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    gains = ranking_gains(top(ranking, k), judged, alpha)
    if not judged.supported:
        return None
    return rank_discounted(gains) / rank_discounted(ideal_gains(judged, alpha, k))


def nrbp(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> float | None:
    """Compute novelty- and rank-biased precision, as `ndeval` does.

        (1 - (1 - alpha) * beta) / n * sum of gain(r) * beta^(r - 1)

    where the gain is that of alpha-nDCG and n is how many nuggets some judged chunk supports.

    Source: Clarke et al., An Effectiveness Measure for Ambiguous and Underspecified Queries,
    ICTIR 2009, as `ndeval` 4.5 has it.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.
        beta: How likely a reader goes on to the next chunk, 0 to 1.

    Returns:
        The value, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1, or alpha or beta outside 0 to 1.
    """
    gains = ranking_gains(top(ranking, k), judged, alpha)
    reached = patience_discounted(gains, beta)
    if not judged.supported:
        return None
    return (1 - (1 - alpha) * beta) / len(judged.answerable) * reached


def patience_discounted(gains: Iterable[RankGain], beta: float) -> float:
    """Add up gains, each times beta^(rank - 1); the sum is exactly rounded.

    Raises:
        ValueError: beta is outside 0 to 1.
    """
    if not 0 <= beta <= 1:
        raise ValueError(f"beta is between 0 and 1, not {beta!r}")
    return math.fsum([gain * beta ** (rank - 1) for rank, gain in gains])


def nnrbp(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> float | None:
    """Compute nNRBP, as `ndeval` does: NRBP over that of the ideal ranking.

    The ideal ranking is that of alpha-nDCG, so a value can be slightly larger than 1.

    Source: Clarke et al., An Effectiveness Measure for Ambiguous and Underspecified Queries,
    ICTIR 2009, as `ndeval` 4.5 has it.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.
        beta: How likely a reader goes on to the next chunk, 0 to 1.

    Returns:
        The value, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1, or alpha or beta outside 0 to 1.
    """
    reached = patience_discounted(ranking_gains(top(ranking, k), judged, alpha), beta)
    if not judged.supported:
        return None
    return reached / patience_discounted(ideal_gains(judged, alpha, k), beta)


def precision_ia(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute P-IA@k: the mean of P@k over the nuggets that some judged chunk supports.

    For one nugget only the chunks that support it are relevant. All nuggets weigh the same.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009, on intent-aware measures;
    `P-IA` of `ndeval`.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, divided by how many they are.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    told = sum(map(len, filter(None, map(judged.supported.get, looked_at))))
    return told / ((k or len(looked_at) or 1) * len(judged.answerable))


def subtopic_recall(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute StRecall@k: the share of nuggets that a chunk of the top k supports.

    Nuggets that no judged chunk supports are left out: it is `Coverage(of='answerable')`.

    Source: Zhai et al., Beyond Independent Relevance, SIGIR 2003; `strec` of `ndeval`; Ju et al.,
    CRUX, arXiv 2506.20051, equation 3 (Cov).

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    return coverage(ranking, judged, k, of="answerable")
