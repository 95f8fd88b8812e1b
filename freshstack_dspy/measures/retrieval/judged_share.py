"""The judged share: how much of a ranking has labels at all."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def judged_share(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Judged@k: the share of the top k chunks that have a label for any nugget.

    Where fewer than k were found it is the share of those; 1 minus it is the share of holes.

    Source: `Judged` of ir_measures.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where the ranking is empty.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not looked_at:
        return None
    return sum(map(judged.chunks.__contains__, looked_at)) / len(looked_at)
