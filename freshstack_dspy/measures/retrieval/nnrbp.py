"""nNRBP: NRBP, as a share of what the ideal ranking of the judged chunks reaches."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.novelty import ideal_gains, ranking_gains
from freshstack_dspy.measures.retrieval.nrbp import patience_discounted


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
