"""Evaluations without the queries that a model can answer without the corpus."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.measures import Evaluation, Run


class Excluding(NamedTuple):
    """Which queries were left out, and what the runs are worth on the others."""

    coverage: float
    """The share of known nuggets from which on a query is left out."""
    left_out: tuple[str, ...]
    """By query_id."""
    evaluations: list[tuple[str, "Evaluation"]]
    """By file name."""


def excluding_contaminated(
    collection: "Collection",
    runs: Sequence[tuple[str, "Run"]],
    measures: Sequence[str],
    coverage: float,
) -> Excluding:
    """Evaluate runs on the evaluated queries that are not contaminated.

    Args:
        collection: With the closed-book answers judged.
        runs: By file name.
        measures: Names of measures.
        coverage: As in `Contents.contaminated`.

    Raises:
        CollectionError: No closed-book answer was judged, or no query is left.
    """
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.measures import Run, evaluate

    qrels = collection.qrels()
    contaminated = set(collection.contaminated(coverage))
    left_out = tuple(query_id for query_id in qrels.nuggets if query_id in contaminated)
    clean = qrels.without(left_out)
    if qrels.nuggets and not clean.nuggets:
        raise CollectionError(
            f"the closed-book answers hold {coverage:.0%} or more of the nuggets of all "
            f"{len(left_out)} evaluated queries, so none is left; raise --contaminated-from"
        )
    evaluations = []
    for name, run in runs:
        others = {
            query: found for query, found in run.rankings.items() if query not in contaminated
        }
        evaluations.append((name, evaluate(clean, Run(run.name, others), measures)))
    return Excluding(coverage, left_out, evaluations)
