"""The evaluation of a run: values by query, their means, and what was missing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import Field

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.bounds import Bounds, find_bounds
from freshstack_dspy.measures.conventions import (
    OUR_CONVENTIONS,
    Conventions,
    Counts,
    conventions_named,
)
from freshstack_dspy.measures.holes import Holes, find_holes
from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.measure import Measure, parse_measure
from freshstack_dspy.measures.order import Order
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""

Undefined = Counts
"""What a query counts whose measure has no value, as Recall where no chunk is relevant."""


class Evaluation(Record):
    """What `evaluate` found.

    Attributes:
        run: The name of the run.
        measures: The names of the measures, in the order asked for.
        means: By measure, the mean over all queries that have a value for it; 0 where none has.
        per_query: By query and measure. Where a measure has no value for a query, 0 or, where
            such queries are skipped, nothing.
        absent: Queries of the collection that are not in the run: 0 in every measure, unless the
            conventions skip them.
        empty: Queries whose ranking is empty: the same.
        without_relevant: Queries none of whose nuggets is supported by a chunk with a label:
            most measures have no value for them, whatever the run finds.
        without_value: By measure, the queries for which it has no value; measures that have one
            for all are left out. Where `rel` is above the threshold, they can be more.
        undefined: What they count: 0, or they are skipped.
        unknown: Queries of the run that are not in the collection: passed over.
        tied: Queries all of whose chunks, two or more, have one score: their order is that of
            the ids and not of the retriever.
        partly_tied: Other queries with two chunks of one score among those that a measure looks
            at, or on both sides of its cut-off: there the scores do not say which is first.
        conventions: The name of the conventions, a key of `CONVENTIONS`.
        beyond: Measures that the program of these conventions does not have: computed with its
            rules, but there is no figure of its own to compare with.
        holes: For each cut-off among the measures, smallest first, what the top holds that has
            no label.
        bounds: Where asked for, what each measure would be if the holes were judged.
    """

    run: str
    measures: tuple[str, ...]
    means: dict[str, float]
    per_query: dict[str, dict[str, float]]
    absent: tuple[str, ...]
    empty: tuple[str, ...]
    without_relevant: tuple[str, ...]
    without_value: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    undefined: Undefined = "zero"
    unknown: tuple[str, ...]
    tied: tuple[str, ...] = ()
    partly_tied: tuple[str, ...] = ()
    conventions: str = OUR_CONVENTIONS
    beyond: tuple[str, ...] = ()
    holes: tuple[Holes, ...]
    bounds: tuple[Bounds, ...] = ()

    def values(self, measure: str) -> dict[str, float]:
        """Give the values of one measure by query, those without one left out."""
        return {query: of[measure] for query, of in self.per_query.items() if measure in of}


def evaluate(
    qrels: NuggetQrels,
    run: Run,
    measures: str | Sequence[str] = FRESHSTACK_MEASURES,
    *,
    undefined: Undefined | None = None,
    conventions: str | Conventions = OUR_CONVENTIONS,
    bounds: bool = False,
) -> Evaluation:
    """Evaluate a run on the judgments of a collection.

    Every measure sees one order, score descending and then id ascending, every query of the
    collection counts, and nothing is rounded. Other programs do otherwise; with their
    `conventions` the figures are those that they print.

    Args:
        qrels: The judgments: of a collection its `qrels()`, of a file `read_qrels(path)`, of a
            dictionary `NuggetQrels.from_qrels(…)`.
        run: The rankings: of a file `read_run(path)`, of a dictionary `Run.from_scores(…)`.
        measures: Names of measures, as `Coverage@20`, or one; one named twice is measured once.
        undefined: What a query counts for which a measure has no value: `zero`, or it is left out
            of that measure's mean (`skip`); None: as the conventions have it, `zero` in ours.
        conventions: What is done with ties and with what is missing: a key of `CONVENTIONS`.
        bounds: Whether to say what each measure would be if the holes were judged. It takes some
            evaluations for each hole, see `find_bounds`.

    Raises:
        ConfigError: A measure or the conventions are unknown, or no measure is named.
        CollectionError: The judgments or the run are of another kind; the collection has no
            queries, or the run has queries but none of the collection's; or the conventions go by
            ranks and one stands twice for a query.
    """
    _refuse_other_kinds(qrels, run)
    names = [measures] if isinstance(measures, str) else measures
    chosen = list(dict.fromkeys(map(parse_measure, names)))
    if not chosen:
        raise ConfigError(f"name at least one measure, as in {', '.join(FRESHSTACK_MEASURES)}")
    rules = conventions_named(conventions) if isinstance(conventions, str) else conventions
    if undefined is not None:
        rules = replace(rules, undefined=undefined)
    _refuse_strangers(qrels, run)
    evaluator = _Evaluator(qrels, run, chosen, rules)
    measured = {query: evaluator.measured(query) for query in qrels.nuggets}
    per_query = {query: of.values for query, of in measured.items()}
    return Evaluation(
        run=run.name,
        measures=tuple(measure.name for measure in chosen),
        means={measure.name: _mean(rules, per_query, run, measure) for measure in chosen},
        per_query=per_query,
        absent=tuple(query for query in qrels.nuggets if query not in run.rankings),
        empty=tuple(query for query in qrels.nuggets if run.rankings.get(query) == ()),
        without_relevant=tuple(query for query, of in measured.items() if not of.any_relevant),
        without_value={
            measure.name: without
            for measure in chosen
            if (without := tuple(q for q, of in measured.items() if measure.name in of.without))
        },
        undefined=rules.undefined,
        unknown=tuple(query for query in run.rankings if query not in qrels.nuggets),
        tied=tuple(query for query in qrels.nuggets if _all_tied(run, query)),
        partly_tied=_partly_tied(qrels, run, chosen, rules.order),
        conventions=rules.name,
        beyond=tuple(measure.name for measure in chosen if not rules.has(measure)),
        holes=tuple(
            find_holes(qrels, run, k, order=rules.order)
            for k in sorted({each.k for each in chosen if each.k})
        ),
        bounds=tuple(evaluator.bounds(per_query)) if bounds else (),
    )


class _Measured(NamedTuple):
    """The values of one query, which measures have none, and whether any chunk is relevant."""

    values: dict[str, float]
    without: frozenset[str]
    any_relevant: bool


class _Evaluator:
    """Measures the queries of one run, one after the other."""

    def __init__(
        self, qrels: NuggetQrels, run: Run, measures: Sequence[Measure], conventions: Conventions
    ) -> None:
        self._qrels = qrels
        self._run = run
        self._conventions = conventions
        cutoffs = [measure.k for measure in measures]
        self._measures = [(measure, conventions.order_of(measure, cutoffs)) for measure in measures]

    def measured(self, query: str) -> _Measured:
        """Measure one query with every measure."""
        judged = self._qrels.judged(query)
        if self._is_skipped(query):
            return _Measured({}, frozenset(), bool(judged.supported))
        by_rel = {self._qrels.threshold: judged}
        by_order: dict[Order, Sequence[str]] = {}
        values = {}
        without = set()
        for measure, order in self._measures:
            rel = measure.rel or self._qrels.threshold
            if rel not in by_rel:
                by_rel[rel] = self._qrels.judged(query, rel)
            if order not in by_order:
                by_order[order] = order.chunks(self._run, query)
            value = self._value(measure, query, by_order[order], by_rel[rel])
            if value is None:
                without.add(measure.name)
            if value is not None or self._conventions.undefined == "zero":
                values[measure.name] = self._rounded(measure.family, value or 0.0)
        return _Measured(values, frozenset(without), bool(judged.supported))

    def _value(
        self, measure: Measure, query: str, ranking: Sequence[str], judged: Judged
    ) -> float | None:
        try:
            return measure(ranking, judged)
        except CollectionError as error:
            raise CollectionError(
                f"run {self._run.name!r:.200}, query {query!r:.200}: {error}"
            ) from None

    def bounds(self, per_query: Mapping[str, Mapping[str, float]]) -> Iterator[Bounds]:
        """Give the bounds of each measure over the queries that count in its mean."""
        for measure, order in self._measures:
            counted = [query for query, values in per_query.items() if measure.name in values]
            rankings = {query: order.chunks(self._run, query) for query in counted}
            yield find_bounds(self._qrels, measure, rankings)

    def _is_skipped(self, query: str) -> bool:
        if query not in self._run.rankings:
            return self._conventions.absent == "skip"
        return self._conventions.empty == "skip" and not self._run.rankings[query]

    def _rounded(self, family: str, value: float) -> float:
        decimals = self._conventions.decimals.get(family)
        return value if decimals is None or decimals.value is None else round(value, decimals.value)


def _mean(
    conventions: Conventions, per_query: dict[str, dict[str, float]], run: Run, measure: Measure
) -> float:
    in_qrels = [of[measure.name] for of in per_query.values() if measure.name in of]
    if measure.family not in conventions.decimals:
        return conventions.mean(measure.family, in_qrels, in_qrels)
    of_run = [query for query in run.rankings if query in per_query]
    others = [query for query in per_query if query not in run.rankings]
    in_run = [
        per_query[query][measure.name]
        for query in (*of_run, *others)
        if measure.name in per_query[query]
    ]
    return conventions.mean(measure.family, in_qrels, in_run)


def _all_tied(run: Run, query: str) -> bool:
    ranking = run.rankings.get(query, ())
    return len(ranking) > 1 and ranking[0].score == ranking[-1].score


def _refuse_other_kinds(qrels: object, run: object) -> None:
    """Say how plain dictionaries and files become judgments and runs."""
    if not isinstance(qrels, NuggetQrels):
        raise CollectionError(
            f"qrels are NuggetQrels, and not {type(qrels).__name__}: type "
            "NuggetQrels.from_qrels({query: {document: grade}}), "
            "NuggetQrels.from_diversity_qrels({query: {subtopic: {document: grade}}}), "
            "read_qrels(path), or collection.qrels()"
        )
    if not isinstance(run, Run):
        raise CollectionError(
            f"a run is a Run, and not {type(run).__name__}: type "
            "Run.from_scores({query: {chunk: score}}, name='bm25') or read_run(path)"
        )


def _partly_tied(
    qrels: NuggetQrels, run: Run, measures: Sequence[Measure], order: Order
) -> tuple[str, ...]:
    cutoffs = [measure.k for measure in measures]
    deepest = None if None in cutoffs else max(k for k in cutoffs if k)
    return tuple(
        query
        for query in qrels.nuggets
        if order.breaks_ties(run, query, deepest) and not _all_tied(run, query)
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
            f"none of the {len(run.rankings)} queries of run {run.name!r:.200} is in the collection: "
            f"the run has {next(iter(run.rankings))!r:.200}, the collection "
            f"{next(iter(qrels.nuggets))!r:.200}; evaluate it on the collection it was made for"
        )
