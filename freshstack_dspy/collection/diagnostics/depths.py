"""The depth curve: what a pool of every smaller depth would hold."""

from bisect import bisect_right

from freshstack_dspy.collection.diagnostics.pooled import Pooled, best_rank
from freshstack_dspy.records import Record


class Depth(Record):
    """What would have been judged with `pool.top_k` of this depth; shares are of the whole pool."""

    depth: int
    chunks: int
    """Chunks among the first `depth` of any technique's fused list."""
    chunk_share: float
    relevant: int
    """Relevant chunks among them."""
    relevant_share: float | None
    """None where no pooled chunk is relevant."""
    nuggets: int
    """Nuggets that one of these chunks supports."""
    nugget_share: float | None
    """None where no pooled chunk supports any."""


def depth_curve(pool: Pooled) -> tuple[Depth, ...]:
    """Say, for each depth from 1 to the pool's, what a pool of that depth would hold.

    It is exact: a build with a smaller `pool.top_k` judges just the chunks whose best rank in a
    technique's fused list is at most that. A depth that adds no chunk is left out.
    """
    ranks = {pair: best_rank(candidate) for pair, candidate in pool.candidates.items()}
    nugget_ranks: dict[str, int] = {}
    for pair, nuggets in pool.support.items():
        for nugget in nuggets if pair in ranks else ():
            nugget_ranks[nugget] = min(ranks[pair], nugget_ranks.get(nugget, ranks[pair]))
    of_chunks = sorted(ranks.values())
    of_relevant = sorted(rank for pair, rank in ranks.items() if pair in pool.support)
    of_nuggets = sorted(nugget_ranks.values())
    curve = []
    for depth in sorted(set(of_chunks)):
        chunks, relevant, nuggets_there = (
            bisect_right(each, depth) for each in (of_chunks, of_relevant, of_nuggets)
        )
        curve.append(
            Depth(
                depth=depth,
                chunks=chunks,
                chunk_share=chunks / len(of_chunks),
                relevant=relevant,
                relevant_share=relevant / len(of_relevant) if of_relevant else None,
                nuggets=nuggets_there,
                nugget_share=nuggets_there / len(of_nuggets) if of_nuggets else None,
            )
        )
    return tuple(curve)
