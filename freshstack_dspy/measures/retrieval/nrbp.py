"""NRBP: rank-biased precision where a nugget that is told again is worth less."""

import math
from collections.abc import Iterable, Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.novelty import RankGain, ranking_gains


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
