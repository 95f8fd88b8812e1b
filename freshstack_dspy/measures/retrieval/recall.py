"""Recall: the share of the relevant chunks that a ranking has."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def recall(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Recall@k: the share of the chunks that support any nugget found in the top k.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3; `recall` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    return sum(map(judged.supported.__contains__, looked_at)) / len(judged.supported)
