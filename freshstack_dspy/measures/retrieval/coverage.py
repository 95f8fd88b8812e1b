"""Coverage: the share of a query's nuggets that a ranking tells."""

from collections.abc import Sequence
from itertools import chain
from typing import Literal

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def coverage(
    ranking: Sequence[str],
    judged: Judged,
    k: int | None = None,
    *,
    of: Literal["all", "answerable"] = "all",
) -> float | None:
    """Compute Coverage@k: the share of nuggets that a chunk of the top k supports.

    Source: Thakur et al., FreshStack, arXiv 2504.13128, section 4.3, equation 1 (all nuggets); Ju
    et al., CRUX, arXiv 2506.20051, equation 3 (answerable ones, as Cov).

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        of: `all` nuggets of the query (FreshStack), or only the `answerable` ones, which some
            judged chunk supports (CRUX).

    Returns:
        The share, 0 to 1, or None where there is no nugget to cover.

    Raises:
        ValueError: k is below 1 or `of` is neither.
    """
    looked_at = top(ranking, k)
    if of not in ("all", "answerable"):
        raise ValueError(f"of is 'all' or 'answerable', not {of!r}")
    nuggets = judged.nuggets if of == "all" else len(judged.answerable)
    if not nuggets:
        return None
    covered = set(chain.from_iterable(filter(None, map(judged.supported.get, looked_at))))
    return len(covered) / nuggets
