"""Precision: the share of the first k places that hold relevant chunks."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute P@k: how many of the top k chunks support any nugget, divided by k.

    Places that a shorter ranking leaves empty count as not relevant.

    Source: `P` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, divided by how many they are.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    found = sum(map(judged.supported.__contains__, looked_at))
    return found / (k or len(looked_at) or 1)
