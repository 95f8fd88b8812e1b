"""Subtopic recall: the share of the answerable nuggets that a ranking tells."""

from collections.abc import Sequence

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.coverage import coverage


def subtopic_recall(ranking: Sequence[str], judged: Judged, k: int | None = None) -> float | None:
    """Compute StRecall@k: the share of nuggets that a chunk of the top k supports.

    Nuggets that no judged chunk supports are left out: it is `Coverage(of='answerable')`.

    Source: Zhai et al., Beyond Independent Relevance, SIGIR 2003; `strec` of `ndeval`; Ju et al.,
    CRUX, arXiv 2506.20051, equation 3 (Cov).

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    return coverage(ranking, judged, k, of="answerable")
