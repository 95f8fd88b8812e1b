"""The evaluation of a run: values by query, their means, and what was missing."""

from collections.abc import Sequence
from statistics import fmean

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.holes import Holes, find_holes
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import SUPPORTING, NuggetLabels, NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""


class Evaluation(Record):
    """What `evaluate` found. Each mean is the mean over all queries of `per_query`.

    Attributes:
        run: The name of the run.
        measures: The names of the measures, in the order asked for.
        means: By measure, the mean over all queries of the collection.
        per_query: By query and measure; a query without a value counts 0.
        absent: Queries of the collection that are not in the run: 0 in every measure.
        empty: Queries whose ranking is empty: 0 in every measure.
        without_relevant: Queries none of whose nuggets is supported by a chunk with a label: 0 in
            every measure, whatever the run finds.
        unknown: Queries of the run that are not in the collection: passed over.
        holes: For each cut-off among the measures, smallest first, what the top holds that has
            no label.
    """

    run: str
    measures: tuple[str, ...]
    means: dict[str, float]
    per_query: dict[str, dict[str, float]]
    absent: tuple[str, ...]
    empty: tuple[str, ...]
    without_relevant: tuple[str, ...]
    unknown: tuple[str, ...]
    holes: tuple[Holes, ...]


def evaluate(
    qrels: NuggetQrels, run: Run, measures: Sequence[str] = FRESHSTACK_MEASURES
) -> Evaluation:
    """Evaluate a run on the judgments of a collection.

    The means agree with the official `freshstack` package wherever that has one order for a
    ranking: every query of the collection counts, with 0 where it has no value. Where scores are
    tied the official package has three orders, one for each measure; here it is always the run's.
    Nothing is rounded.

    Args:
        qrels: The judgments.
        run: The rankings.
        measures: Names of measures, as `Coverage@20`; one named twice is measured once.

    Raises:
        ConfigError: A measure is unknown, or none is named.
        CollectionError: The collection has no queries, or the run has queries but none of the
            collection's.
    """
    chosen = [parse_measure(name) for name in dict.fromkeys(measures)]
    if not chosen:
        raise ConfigError(f"name at least one measure, as in {', '.join(FRESHSTACK_MEASURES)}")
    _refuse_strangers(qrels, run)
    per_query: dict[str, dict[str, float]] = {}
    without_relevant = []
    for query in qrels.nuggets:
        labels = qrels.labels_of(query)
        ranking = [chunk.chunk_id for chunk in run.rankings.get(query, ())]
        per_query[query] = {measure.name: measure(ranking, labels) or 0.0 for measure in chosen}
        if not _any_support(labels):
            without_relevant.append(query)
    return Evaluation(
        run=run.name,
        measures=tuple(measure.name for measure in chosen),
        means={
            measure.name: fmean(values[measure.name] for values in per_query.values())
            for measure in chosen
        },
        per_query=per_query,
        absent=tuple(query for query in qrels.nuggets if query not in run.rankings),
        empty=tuple(query for query in qrels.nuggets if run.rankings.get(query) == ()),
        without_relevant=tuple(without_relevant),
        unknown=tuple(query for query in run.rankings if query not in qrels.nuggets),
        holes=tuple(find_holes(qrels, run, k) for k in sorted({each.k for each in chosen})),
    )


def _refuse_strangers(qrels: NuggetQrels, run: Run) -> None:
    """Refuse a run that is of another collection, rather than give it zeros."""
    if not qrels.nuggets:
        raise CollectionError(
            "the collection has no query in its evaluated slices; build it with "
            '[filters] unsupported_nuggets = "keep" to evaluate on partly supported ones too'
        )
    if run.rankings and qrels.nuggets.keys().isdisjoint(run.rankings):
        raise CollectionError(
            f"none of the {len(run.rankings)} queries of run {run.name!r} is in the collection: "
            f"the run has {next(iter(run.rankings))!r}, the collection "
            f"{next(iter(qrels.nuggets))!r}; evaluate it on the collection it was made for"
        )


def _any_support(labels: NuggetLabels) -> bool:
    return any(max(nugget.values(), default=0) >= SUPPORTING for nugget in labels.values())
