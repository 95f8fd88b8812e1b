"""Holes: what the top of a ranking holds that has no label, and so counts as not relevant."""

from statistics import fmean

from freshstack_dspy.measures.order import OURS, Order
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record


class Holes(Record):
    """What the top k of a run holds that has no label.

    Attributes:
        k: How many chunks of each ranking were looked at.
        unjudged: By query with results, the share of its top k chunks (of those there are, where
            they are fewer) that have a label for none of the query's nuggets.
        mean_unjudged: The mean of these shares, or None where no query has results.
        failed: By query, how many failed judgments (nugget, chunk) of chunks in its top k were
            met; queries without one are left out.
    """

    k: int
    unjudged: dict[str, float]
    mean_unjudged: float | None
    failed: dict[str, int]


def find_holes(qrels: NuggetQrels, run: Run, k: int, *, order: Order = OURS) -> Holes:
    """Find what the top k of a run holds that has no label.

    Judged means judged for this query: the labels of other queries say nothing about it.

    Args:
        qrels: The judgments; queries that are only in the run are passed over.
        run: The rankings.
        k: How many chunks are looked at, at least 1.
        order: The rule that says which are the first.

    Raises:
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"the cut-off k is at least 1, not {k!r}")
    unjudged: dict[str, float] = {}
    failed: dict[str, int] = {}
    for query, nuggets in qrels.nuggets.items():
        top = set(order.chunks(run, query, k))
        if not top:
            continue
        holes = top.difference(*(qrels.labels[nugget] for nugget in nuggets))
        unjudged[query] = len(holes) / len(top)
        if met := sum(len(top & qrels.failed[nugget]) for nugget in nuggets):
            failed[query] = met
    mean = fmean(unjudged.values()) if unjudged else None
    return Holes(k=k, unjudged=unjudged, mean_unjudged=mean, failed=failed)
