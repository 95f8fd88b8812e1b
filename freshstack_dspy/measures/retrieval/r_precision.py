"""R-precision: precision at as many chunks as are relevant."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def r_precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute Rprec: P@R, where R is how many chunks support any nugget. It is also Recall@R.

    Source: Buckley and Voorhees, Retrieval System Evaluation, in TREC: Experiment and Evaluation
    in Information Retrieval, 2005; `Rprec` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    relevant = len(judged.supported)
    if not relevant:
        return None
    return sum(map(judged.supported.__contains__, looked_at[:relevant])) / relevant
