"""Intent-aware average precision: the mean of those that each nugget has for itself."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def average_precision_ia(
    ranking: Sequence[str], judged: Judged, k: int | None = None
) -> float | None:
    """Compute AP-IA: the mean of AP over the nuggets that some judged chunk supports.

    For one nugget only the chunks that support it are relevant. All nuggets weigh the same.

    Source: Agrawal et al., Diversifying Search Results, WSDM 2009, on intent-aware measures;
    `MAP-IA` of `ndeval`.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all, as the measure is meant.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    supporting = Counter(chain.from_iterable(judged.supported.values()))
    found: Counter[int] = Counter()
    precisions = []
    for rank, told in enumerate(map(judged.supported.get, looked_at), start=1):
        for nugget in told or ():
            found[nugget] += 1
            precisions.append(found[nugget] / rank / supporting[nugget])
    return math.fsum(precisions) / len(supporting)
