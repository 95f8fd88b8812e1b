"""Evaluations without the queries that a model can answer without the corpus."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from freshstack_dspy.cli.evaluated import Excluding, evaluated
from freshstack_dspy.cli.lines import percent

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.run import Run


def excluding_contaminated(
    collection: "Collection",
    qrels: "NuggetQrels",
    runs: "Sequence[tuple[str, Run]]",
    evaluate: "Callable[[NuggetQrels, Run], Evaluation]",
    coverage: float,
) -> Excluding:
    """Evaluate runs on the evaluated queries that are not contaminated.

    Args:
        collection: With the closed-book answers judged.
        qrels: Of the evaluated queries.
        runs: By name.
        evaluate: Evaluates a run on qrels.
        coverage: As in `Contents.contaminated`.

    Raises:
        CollectionError: No closed-book answer was judged, or no query is left.
    """
    from freshstack_dspy.errors import CollectionError

    contaminated = set(collection.contaminated(coverage))
    left_out = tuple(query_id for query_id in qrels.nuggets if query_id in contaminated)
    clean = qrels.without(left_out)
    if qrels.nuggets and not clean.nuggets:
        raise CollectionError(
            f"the closed-book answers hold {percent(coverage)} or more of the nuggets of all "
            f"{len(left_out)} evaluated queries, so none is left; raise --contaminated-from"
        )

    def on_the_others(run: "Run") -> "Evaluation":
        return evaluate(clean, run.without(contaminated))

    return Excluding(coverage, left_out, evaluated(runs, on_the_others))
