"""alpha-DCG: discounted gains with repetition worth less, before it is set against an ideal."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.discount import log2_discounts
from freshstack_dspy.measures.retrieval.novelty import RankGain, ranking_gains


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
