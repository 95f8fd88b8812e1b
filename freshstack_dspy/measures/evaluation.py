"""The evaluation of a run: values by query, their means, and what was missing."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.holes import Holes, find_holes
from freshstack_dspy.measures.measure import Measure, parse_measure
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""

Undefined = Literal["zero", "skip"]
"""What a query counts whose measure has no value, as Recall where no chunk is relevant."""


class Evaluation(Record):
    """What `evaluate` found.

    Attributes:
        run: The name of the run.
        measures: The names of the measures, in the order asked for.
        means: By measure, the mean over all queries that have a value for it; 0 where none has.
        per_query: By query and measure. Where a measure has no value for a query, 0 or, where
            such queries are skipped, nothing.
        absent: Queries of the collection that are not in the run: 0 in every measure.
        empty: Queries whose ranking is empty: 0 in every measure.
        without_relevant: Queries none of whose nuggets is supported by a chunk with a label:
            most measures have no value for them, whatever the run finds.
        undefined: What they count, where a measure has no value: 0, or they are skipped.
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
    undefined: Undefined = "zero"
    unknown: tuple[str, ...]
    holes: tuple[Holes, ...]

    def values(self, measure: str) -> dict[str, float]:
        """Give the values of one measure by query, those without one left out."""
        return {query: of[measure] for query, of in self.per_query.items() if measure in of}


def evaluate(
    qrels: NuggetQrels,
    run: Run,
    measures: Sequence[str] = FRESHSTACK_MEASURES,
    *,
    undefined: Undefined = "zero",
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
        undefined: What a query counts for which a measure has no value: `zero`, or it is left out
            of that measure's mean (`skip`).

    Raises:
        ConfigError: A measure is unknown, or none is named.
        CollectionError: The collection has no queries, or the run has queries but none of the
            collection's.
    """
    chosen = list(dict.fromkeys(map(parse_measure, measures)))
    if not chosen:
        raise ConfigError(f"name at least one measure, as in {', '.join(FRESHSTACK_MEASURES)}")
    _refuse_strangers(qrels, run)
    per_query: dict[str, dict[str, float]] = {}
    without_relevant = []
    for query in qrels.nuggets:
        values, relevant = _measured(qrels, run, query, chosen)
        per_query[query] = {
            name: value or 0.0
            for name, value in values.items()
            if value is not None or undefined == "zero"
        }
        if not relevant:
            without_relevant.append(query)
    return Evaluation(
        run=run.name,
        measures=tuple(measure.name for measure in chosen),
        means={measure.name: _mean(per_query, measure.name) for measure in chosen},
        per_query=per_query,
        absent=tuple(query for query in qrels.nuggets if query not in run.rankings),
        empty=tuple(query for query in qrels.nuggets if run.rankings.get(query) == ()),
        without_relevant=tuple(without_relevant),
        undefined=undefined,
        unknown=tuple(query for query in run.rankings if query not in qrels.nuggets),
        holes=tuple(
            find_holes(qrels, run, k) for k in sorted({each.k for each in chosen if each.k})
        ),
    )


def _measured(
    qrels: NuggetQrels, run: Run, query: str, measures: Sequence[Measure]
) -> tuple[dict[str, float | None], bool]:
    """Measure one query; say whether any of its chunks is relevant."""
    judged = qrels.judged(query)
    by_rel = {qrels.threshold: judged}
    ranking = [chunk.chunk_id for chunk in run.rankings.get(query, ())]
    values = {}
    for measure in measures:
        rel = measure.rel or qrels.threshold
        if rel not in by_rel:
            by_rel[rel] = qrels.judged(query, rel)
        values[measure.name] = measure(ranking, by_rel[rel])
    return values, bool(judged.supported)


def _mean(per_query: dict[str, dict[str, float]], measure: str) -> float:
    values = [of[measure] for of in per_query.values() if measure in of]
    return fmean(values) if values else 0.0


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
