"""Intent-aware precision: the mean of the precisions that those who want one nugget see."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def precision_ia(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute P-IA@k: the mean of P@k over the nuggets that some judged chunk supports.

    For one nugget only the chunks that support it are relevant. All nuggets weigh the same.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009, on intent-aware measures;
    `P-IA` of `ndeval`.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, divided by how many they are.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    told = sum(map(len, filter(None, map(judged.supported.get, looked_at))))
    return told / ((k or len(looked_at) or 1) * len(judged.answerable))
