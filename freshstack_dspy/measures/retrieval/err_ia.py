"""ERR-IA: how soon a reader who wants one of the nuggets meets it, each nugget as likely."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.novelty import RankGain, ranking_gains


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
    highest = len(judged.answerable) * _all_told(len(ranking) if k is None else k, alpha)
    return rank_discounted(gains) / highest if gains else 0.0


def rank_discounted(gains: Iterable[RankGain]) -> float:
    """Add up gains, each divided by its rank; the sum is exactly rounded."""
    return math.fsum([gain / rank for rank, gain in gains])


@lru_cache(maxsize=128)
def _all_told(depth: int, alpha: float) -> float:
    return math.fsum((1 - alpha) ** (rank - 1) / rank for rank in range(1, depth + 1))
