"""Reciprocal rank: how far up the first relevant chunk stands."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def reciprocal_rank(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute RR@k: 1 / rank of the first chunk that supports any nugget, or 0. Its mean is MRR.

    Source: Kantor and Voorhees, The TREC-5 Confusion Track, Information Retrieval 2, 2000;
    `recip_rank` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The value, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    for rank, chunk in enumerate(looked_at, start=1):
        if chunk in judged.supported:
            return 1 / rank
    return 0.0
