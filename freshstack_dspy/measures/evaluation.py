"""The evaluation of a run: values by query, their means, and what was missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from pydantic import Field

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.conventions import (
    OUR_CONVENTIONS,
    OURS,
    Conventions,
    Counts,
    Order,
    conventions_named,
)
from freshstack_dspy.measures.measure import Measure, parse_measure
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record

RISING = frozenset({"Coverage", "F1", "P", "RR", "Recall", "StRecall", "Success"})
"""No hole that is judged relevant lowers them, so the two ends are the bounds."""
RISING_WITH_PLACE = frozenset(
    {
        *("AP", "AP_IA", "ERR_IA", "NRBP", "P_IA", "Rprec", "alpha_DCG"),
        *("alpha_nDCG", "nDCG", "nERR_IA", "nNRBP"),
    }
)
"""Of as many relevant holes, the higher they stand the higher the value; but one more relevant
hole can lower it, for the ideal or the number of relevant chunks that it is divided by grows too.
The bounds are then found by trying every number of relevant holes, all at the top or all at the
bottom."""


class Bounds(Record):
    """What a measure would be if the holes of the top k were judged.

    Holes below the top k, and chunks that were never found, stay as they are: a chunk that is
    found to be relevant there can still lower Recall or an nDCG.

    Attributes:
        measure: Its name.
        none_relevant: By query, the value if no hole were relevant.
        all_relevant: By query, the value if every hole were relevant.
        lowest: By query, the lowest value that judging the holes can give, each as relevant to
            every nugget or to none; a hole that supports some nuggets only can give a lower one.
            None for a measure for which it is not known, and with `judged_only`.
        highest: The same, the highest.
        mean_none_relevant: The mean over the queries that count in the mean of the measure.
        mean_all_relevant: As before.
        mean_lowest: As before; None where `lowest` is.
        mean_highest: As before; None where `highest` is.
    """

    measure: str
    none_relevant: dict[str, float]
    all_relevant: dict[str, float]
    lowest: dict[str, float] | None
    highest: dict[str, float] | None
    mean_none_relevant: float
    mean_all_relevant: float
    mean_lowest: float | None
    mean_highest: float | None


def find_bounds(
    qrels: NuggetQrels, measure: Measure, rankings: Mapping[str, Sequence[str]]
) -> Bounds:
    """Find what a measure would be if the holes of the rankings were judged.

    For Coverage, P, Recall, F1, reciprocal rank, subtopic recall and Success the value rises with
    every relevant hole. For measures that are divided by an ideal ranking or by how many chunks or
    nuggets are relevant (nDCG, alpha-nDCG, ERR-IA, P-IA, average precision, R-precision), the
    ideal grows as well, and `all_relevant` can be less than `none_relevant`; their bounds take
    two evaluations for each hole. For any other measure only the two values are given, and with
    `judged_only` as well: there a hole that is judged, as whatever, comes into the ranking, and
    the value before it did need not lie between.

    The bounds are over all ways to judge each hole relevant to all nuggets or to none. A hole
    that supports some of the nuggets of its query can take the value of the query far beyond
    them, in all measures with a second evaluation but AP and Rprec: on small random queries by up
    to .33 for nNRBP, .28 for nERR_IA, .25 for alpha_DCG, .19 for alpha_nDCG and .17 for nDCG.
    Without a cut-off, every hole of the ranking is judged.

    Args:
        qrels: The judgments.
        measure: The measure.
        rankings: Chunk ids, best first, by query; those of the queries that count.
    """
    highest_label = max(
        chain.from_iterable(labels.values() for labels in qrels.labels.values()), default=1
    )
    by_query = {
        query: _Query(qrels, query, measure, ranking, highest_label).bounds()
        for query, ranking in rankings.items()
    }
    known = _is_known(measure)
    columns: list[dict[str, float]] = [
        {query: values[place] for query, values in by_query.items()} for place in range(4)
    ]
    means = [fmean(column.values()) if column else 0.0 for column in columns]
    return Bounds(
        measure=measure.name,
        none_relevant=columns[0],
        all_relevant=columns[1],
        lowest=columns[2] if known else None,
        highest=columns[3] if known else None,
        mean_none_relevant=means[0],
        mean_all_relevant=means[1],
        mean_lowest=means[2] if known else None,
        mean_highest=means[3] if known else None,
    )


def _is_known(measure: Measure) -> bool:
    """Whether it is known how a measure moves with every hole that is judged."""
    known = measure.family in RISING or measure.family in RISING_WITH_PLACE
    return known and "judged_only" not in dict(measure.parameters)


class _Query:
    """One query, whose holes are judged in one way after the other."""

    def __init__(
        self,
        qrels: NuggetQrels,
        query_id: str,
        measure: Measure,
        ranking: Sequence[str],
        highest_label: int,
    ) -> None:
        self._measure = measure
        self._ranking = ranking
        labels = qrels.labels_of(query_id)
        self._rel = measure.rel or qrels.threshold
        self._tokens = qrels.tokens
        self._relevant = max(highest_label, self._rel)
        judged = Judged(labels).chunks
        self._holes = [chunk for chunk in ranking[: measure.k] if chunk not in judged]
        self._unsupported = (
            # Labels that are no support can be left out, of which there are many.
            {} if _is_known(measure) else dict.fromkeys((*judged, *self._holes), 0)
        )
        self._labels = {
            nugget: {chunk: label for chunk, label in of.items() if label >= self._rel}
            for nugget, of in labels.items()
        }

    def bounds(self) -> tuple[float, float, float, float]:
        """Give the values if none or all are relevant, and the lowest and the highest."""
        none, every = self._value(()), self._value(self._holes)
        values = [none, every]
        if self._measure.family in RISING_WITH_PLACE and _is_known(self._measure):
            for many in range(1, len(self._holes)):
                values += [self._value(self._holes[:many]), self._value(self._holes[-many:])]
        return none, every, min(values), max(values)

    def _value(self, relevant: Iterable[str]) -> float:
        judged = dict.fromkeys(relevant, self._relevant)
        labels = {
            nugget: {**self._unsupported, **of, **judged} for nugget, of in self._labels.items()
        }
        return self._measure(self._ranking, Judged(labels, self._rel, self._tokens)) or 0.0


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
    _check_other_kinds(qrels, run)
    names = [measures] if isinstance(measures, str) else measures
    chosen = list(dict.fromkeys(map(parse_measure, names)))
    if not chosen:
        raise ConfigError(f"name at least one measure, as in {', '.join(FRESHSTACK_MEASURES)}")
    rules = conventions_named(conventions) if isinstance(conventions, str) else conventions
    if undefined is not None:
        rules = replace(rules, undefined=undefined)
    _check_strangers(qrels, run)
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


def _check_other_kinds(qrels: object, run: object) -> None:
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


def _check_strangers(qrels: NuggetQrels, run: Run) -> None:
    """Refuse a run that is of another collection, rather than give it zeros."""
    if not qrels.nuggets:
        raise CollectionError("the qrels have no query, so there is nothing to evaluate")
    if run.rankings and qrels.nuggets.keys().isdisjoint(run.rankings):
        raise CollectionError(
            f"none of the {len(run.rankings)} queries of run {run.name!r:.200} is in the collection: "
            f"the run has {next(iter(run.rankings))!r:.200}, the collection "
            f"{next(iter(qrels.nuggets))!r:.200}; evaluate it on the collection it was made for"
        )


MEASURES_VERSION = 1
"""Raised whenever a figure of a measure, of the same run on the same judgments, may change: a
formula, a tie rule, what a missing query counts, how an interval is drawn. Figures of two versions
are not compared; they are computed again from the stored runs."""
