"""F1: precision and recall in one number."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def f1(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute F1@k: the harmonic mean of P@k and Recall@k, 2 * found / (k + relevant).

    Source: van Rijsbergen, Information Retrieval, 2nd edition, 1979, chapter 7.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, and it is then how many they are.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    found = sum(map(judged.supported.__contains__, looked_at))
    return 2 * found / ((k or len(looked_at)) + len(judged.supported))
