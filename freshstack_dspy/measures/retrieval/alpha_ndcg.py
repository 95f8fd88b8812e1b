"""alpha-nDCG: how soon a ranking tells everything, with what it repeats worth less."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.alpha_dcg import log2_discounted
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.retrieval.novelty import ideal_gains, ranking_gains


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
