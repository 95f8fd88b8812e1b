"""Success, or hit rate: whether any relevant chunk was found."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def success(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Success@k: 1 if any of the top k chunks supports any nugget, else 0.

    Source: `success` of trec_eval. Some call this recall or hit rate.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        1 or 0, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    return float(any(map(judged.supported.__contains__, looked_at)))
