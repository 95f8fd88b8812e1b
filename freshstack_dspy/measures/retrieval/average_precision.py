"""Average precision: how good the precision is, at each relevant chunk."""

import math
from collections.abc import Sequence
from itertools import compress, count

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def average_precision(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute AP@k: the mean of P@rank over the relevant chunks. Its mean is MAP.

    A relevant chunk outside the top k has a precision of 0: the mean is over all relevant chunks,
    not over at most k.

    Source: Harman, Evaluation Issues in Information Retrieval, Information Processing and
    Management 28, 1992; `map` and `map_cut` of trec_eval.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The mean, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    looked_at = top(ranking, k)
    if not judged.supported:
        return None
    ranks = compress(count(1), map(judged.supported.__contains__, looked_at))
    return math.fsum([found / rank for found, rank in enumerate(ranks, 1)]) / len(judged.supported)
