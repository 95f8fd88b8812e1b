"""nERR-IA: ERR-IA, as a share of what the ideal ranking of the judged chunks reaches."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.err_ia import rank_discounted
from freshstack_dspy.measures.retrieval.novelty import ideal_gains, ranking_gains


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
