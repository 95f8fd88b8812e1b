"""The evaluation of a run: values by query, their means, and what was missing."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.measures.conventions import Conventions, Order, conventions_named
from freshstack_dspy.measures.measure import Cutoff, Measure, MeasureSource, parse_measures
from freshstack_dspy.measures.passage_labels import judge_passages, read_run_of
from freshstack_dspy.measures.qrels import About, Judged, NuggetQrels, QrelsSource, to_qrels
from freshstack_dspy.measures.run import PassageRun, Run, RunSource
from freshstack_dspy.measures.statistics import Interval, mean_intervals
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DRY_RUN, Record
from freshstack_dspy.rows import load_pandas

if TYPE_CHECKING:
    import pandas as pd

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""

MEASURES_VERSION = 2
"""Raised whenever a value of a measure, of the same run on the same judgments, may change: a
formula, a tie rule, what a missing query counts, how an interval is drawn. Values of two versions
are not compared; they are computed again from the stored runs."""

UnknownIds = Literal["error", "drop"]
"""What is done with chunk ids of a run that the corpus does not have."""


class Unjudged(Record):
    """What the top k of a run has that was not judged."""

    k: Cutoff
    shares: dict[str, float]
    """By query with results, the share of its top k chunks (of those there are, where they are
    fewer) that are not judged: no label, or none of support and a failed judgment. Of a run of
    passages, the mean share of the bytes of each that are in no judged chunk."""
    mean: float | None
    """The mean of these shares; None where no query has results."""
    failed: dict[str, int]
    """By query, how many failed judgments (nugget, chunk) of chunks in its top k were met; queries
    without one are left out."""


class PassageNotes(Record):
    """What has to be known to read the evaluation of a run of passages."""

    covered: float
    """The share of the evidence that a passage holds at least to support a nugget."""
    passages: int
    """How many passages there are, at different places."""
    repeated: int
    """How many results were at the place of another of their query; the better score counts."""
    unplaced: int
    """How many results have no known place; they keep their ranks, and support nothing."""
    placed_share: float
    labels: int
    """How many labels of support the measured nuggets have."""
    without_evidence: int
    """How many of these have no evidence, and count by their whole chunk."""


class Evaluation(Record, Shown):
    """What `evaluate` found."""

    run: str
    measures: tuple[str, ...]
    """In the order asked for."""
    means: dict[str, float]
    """By measure, over all queries that count; 0 where none does."""
    per_query: dict[str, dict[str, float]]
    """By query and measure; nothing for queries that the conventions leave out. Where a measure has
    no value for a query, 0."""
    absent: tuple[str, ...] = ()
    """Queries of the judgments that are not in the run: 0 in every measure, unless the conventions
    leave them out."""
    empty: tuple[str, ...] = ()
    """Queries whose ranking is empty: the same."""
    without_relevant: tuple[str, ...] = ()
    """Queries none of whose nuggets is supported by a chunk with a label: most measures have no
    value for them."""
    without_value: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By measure, the queries for which it has no value; measures with one for all are left out.
    Where `rel` is above the threshold, they can be more than `without_relevant`."""
    unknown: tuple[str, ...] = ()
    """Queries of the run that have no judgments: passed over."""
    unknown_chunks: int = 0
    """How many results were dropped, as the corpus does not have them."""
    most_results: int = 0
    """The most results of any of its judged queries; a cut-off that is deeper may be past the run's own."""
    tied: tuple[str, ...] = ()
    """Queries all of whose chunks, two or more, have one score: their order is that of the ids and
    not of the retriever."""
    conventions: str = "ours"
    """A key of `CONVENTIONS`."""
    unjudged: tuple[Unjudged, ...] = ()
    """For each cut-off among the measures, smallest first, those in tokens last, what the top has
    that was not judged."""
    passages: PassageNotes | None = None
    """Notes on a run of passages."""
    dry_run: bool = False
    """Whether a word counter made labels, so that nothing is concluded of the values."""
    judged_only: dict[str, dict[str, float]] = Field(default_factory=dict, exclude=True, repr=False)
    """As `per_query`, with chunks without a label taken out of the rankings; where it was asked for.
    Written nowhere."""
    questions: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """The texts of the queries, where they are of a collection; written nowhere."""
    about: About = Field(default_factory=About, exclude=True, repr=False)
    """The judgments; written nowhere."""

    @property
    def mostly_unjudged(self) -> tuple[Cutoff, ...]:
        """The cut-offs at which most of the top is unjudged, so that values tell little of the run."""
        return tuple(of.k for of in self.unjudged if of.mean is not None and of.mean > 0.5)

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        notes = self.passages
        placed = "" if notes is None else f", {notes.placed_share:.1%} of the results placed"
        dry = f", {DRY_RUN}" if self.dry_run else ""
        return f"Evaluation({self.run!r}, {len(self.per_query):,} queries{placed}, {means}{dry})"

    __str__ = __repr__

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The means with their 95% bootstrap intervals over queries, by measure."""
        intervals = mean_intervals({name: self.values(name) for name in self.measures})
        return {
            # Some conventions round the mean.
            name: mean.model_copy(update={"value": self.means[name]}) if mean.groups else mean
            for name, mean in intervals.items()
        }

    def values(
        self, measure: str, *, only_defined: bool = False, judged_only: bool = False
    ) -> dict[str, float]:
        """Give the values of one measure by query, or only those where it has one."""
        without = set(self.without_value.get(measure, ())) if only_defined else set()
        return {
            query: of[measure]
            for query, of in (self.judged_only if judged_only else self.per_query).items()
            if measure in of and query not in without
        }

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each query and a column for each measure.

        For a collection, the first column is the question's text.
        """
        pd = load_pandas()
        table = pd.DataFrame.from_dict(self.per_query, orient="index", columns=[*self.measures])
        if self.questions:
            table.insert(0, "question", [self.questions.get(query) for query in self.per_query])
        return table.rename_axis("query_id")


def evaluate(
    qrels: QrelsSource,
    run: RunSource,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    conventions: str | Conventions = "ours",
    unknown_ids: UnknownIds = "error",
    covered: float = 1.0,
    judged_only: bool = False,
) -> Evaluation:
    """Evaluate a run on judgments; arguments and errors are those of `freshstack_dspy.evaluate`.

    With `judged_only` the values of the judged chunks alone are computed too, for a comparison;
    not where the judgments list only what is relevant.
    """
    if not 0 < covered <= 1:
        raise ConfigError(f"covered is a share above 0 and at most 1, not {covered!r}")
    judgments = to_qrels(qrels)
    given = read_run_of(judgments, run)
    if isinstance(given, PassageRun):
        evaluated = _evaluate(
            *judge_passages(given, judgments, covered),
            measures,
            conventions,
            judged_only=judged_only,
        )
        return evaluated.model_copy(update={"passages": _notes(judgments, given, covered)})
    return _evaluate(judgments, given, measures, conventions, unknown_ids, judged_only=judged_only)


def _evaluate(
    judgments: NuggetQrels,
    found: Run,
    measures: MeasureSource | Sequence[MeasureSource],
    conventions: str | Conventions,
    unknown_ids: UnknownIds = "error",
    *,
    judged_only: bool = False,
) -> Evaluation:
    chosen = parse_measures(measures)
    rules = conventions_named(conventions) if isinstance(conventions, str) else conventions
    _check_queries(judgments, found)
    known, dropped = _known_chunks(judgments, found, unknown_ids)
    if judgments.chunk_ids is None and judgments.passages is None:
        _warn_of_unknown_ids(judgments, known)
    ordered = [(each, rules.order_of(each, [of.k for of in chosen])) for each in chosen]
    without_value: dict[str, list[str]] = {}
    reference = judgments if judgments.passages is None else judgments.passages.of
    judged = {query: judgments.judged(query) for query in judgments.nuggets}
    condensed: dict[str, dict[str, float]] | None = None
    if judged_only and _has_negatives(judgments):
        condensed = {}
    per_query = {
        query: _measured(
            query, judgments, {None: of}, known, ordered, rules, without_value, condensed
        )
        for query, of in judged.items()
    }
    rankings = {query: rules.order.chunks(known, query) for query in judged}
    cuts = {each.cutoff: each for each in chosen if each.cutoff is not None}
    cutoffs = sorted(cuts.values(), key=lambda each: (each.budget or 0, each.k or 0))
    return Evaluation(
        run=known.name,
        measures=tuple(measure.name for measure in chosen),
        means={measure.name: _mean(measure, per_query, known, rules) for measure in chosen},
        per_query=per_query,
        absent=tuple(query for query in judgments.nuggets if query not in found),
        empty=tuple(query for query in judgments.nuggets if known.ids.get(query) == ()),
        without_relevant=tuple(
            query for query in judgments.nuggets if not _any_supported(reference, query)
        ),
        without_value={name: tuple(of) for name, of in without_value.items()},
        unknown=tuple(query for query in found if query not in judgments.nuggets),
        unknown_chunks=dropped,
        most_results=max((len(known.ids.get(query, ())) for query in judgments.nuggets), default=0),
        tied=tuple(query for query in judgments.nuggets if _all_tied(known, query)),
        conventions=rules.name,
        unjudged=tuple(_unjudged(judgments, judged, rankings, each) for each in cutoffs),
        dry_run=judgments.dry_run,
        judged_only=condensed or {},
        questions={
            query: text for query, text in judgments.questions.items() if query in per_query
        },
        about=judgments.about.model_copy(update={"measured": len(judgments.nuggets)}),
    )


def _notes(qrels: NuggetQrels, run: PassageRun, covered: float) -> PassageNotes:
    labels = without = 0
    for query, nuggets in qrels.nuggets.items():
        of_query = () if qrels.spans is None else qrels.spans.labels(query).values()
        for chunk in chain.from_iterable(of_query):
            for nugget in nuggets:
                if (chunk.labels.get(nugget) or 0) >= qrels.threshold:
                    labels += 1
                    without += nugget in chunk.without_evidence
    return PassageNotes(
        covered=covered,
        passages=sum(map(len, run.passages.values())),
        repeated=run.repeated,
        unplaced=sum(map(len, run.unplaced.values())),
        placed_share=run.placed_share,
        labels=labels,
        without_evidence=without,
    )


def _measured(
    query: str,
    qrels: NuggetQrels,
    judged: dict[int | None, Judged],
    run: Run,
    measures: Sequence[tuple[Measure, Order]],
    rules: Conventions,
    without_value: dict[str, list[str]],
    condensed: dict[str, dict[str, float]] | None,
) -> dict[str, float]:
    """Give the value of each measure for a query, and note those without one.

    `judged` has its judgments by `rel`, as far as they are made. `condensed`, where there is one,
    gets the values of the judged chunks alone (Sakai, Alternatives to Bpref, SIGIR 2007).
    """
    if rules.skips(run, query):
        return {}
    rankings: dict[Order, Sequence[str]] = {}
    values = {}
    for measure, order in measures:
        rel = 1 if qrels.plain and measure.family in rules.all_grades else measure.rel
        if rel not in judged:
            judged[rel] = qrels.judged(query, rel)
        if order not in rankings:
            rankings[order] = order.chunks(run, query)
        try:
            value = measure(rankings[order], judged[rel])
        except CollectionError as error:
            raise CollectionError(f"run {run.name!r:.200}, query {query!r:.200}: {error}") from None
        if value is None:
            without_value.setdefault(measure.name, []).append(query)
        values[measure.name] = rules.round_value(measure.family, value or 0.0)
        if condensed is not None:
            of, ranking = judged[measure.rel], rankings[order]
            if measure.family != "Judged" and not of.chunks.issuperset(ranking[: measure.k]):
                value = measure([chunk for chunk in ranking if chunk in of.chunks], of)
            condensed.setdefault(query, {})[measure.name] = rules.round_value(
                measure.family, value or 0.0
            )
    return values


def _mean(
    measure: Measure, per_query: Mapping[str, Mapping[str, float]], run: Run, rules: Conventions
) -> float:
    in_qrels = {query: of[measure.name] for query, of in per_query.items() if of}
    order = [query for query in run if query in in_qrels]
    order += [query for query in in_qrels if query not in run]
    in_run = [in_qrels[query] for query in order]
    return rules.mean(measure.family, list(in_qrels.values()), in_run)


def _unjudged(
    qrels: NuggetQrels,
    judged: Mapping[str, Judged],
    rankings: Mapping[str, Sequence[str]],
    measure: Measure,
) -> Unjudged:
    shares: dict[str, float] = {}
    failed: dict[str, int] = {}
    for query, of in judged.items():
        top = measure.top(rankings[query], of)
        if not top:
            continue
        if qrels.passages is None:
            shares[query] = (len(top) - sum(map(of.chunks.__contains__, top))) / len(top)
        else:
            shares[query] = fmean(map(qrels.passages.unjudged[query].__getitem__, sorted(top)))
        if of.failed:
            met = sum(len(qrels.failed[nugget].intersection(top)) for nugget in of.labels)
            failed |= {query: met} if met else {}
    mean = fmean(shares.values()) if shares else None
    return Unjudged(k=measure.cutoff or 0, shares=shares, mean=mean, failed=failed)


def _has_negatives(qrels: NuggetQrels) -> bool:
    """Whether anything was judged not relevant; where only the relevant is listed, all else is not."""
    labels = chain.from_iterable(of.values() for of in qrels.labels.values())
    return any(label < qrels.threshold for label in labels)


def _any_supported(qrels: NuggetQrels, query: str) -> bool:
    labels = (label for nugget in qrels.nuggets[query] for label in qrels.labels[nugget].values())
    return any(label >= qrels.threshold for label in labels)


def _all_tied(run: Run, query: str) -> bool:
    ids = run.ids.get(query, ())
    return len(ids) > 1 and run.scores[query][ids[0]] == run.scores[query][ids[-1]]


def _check_queries(qrels: NuggetQrels, run: Run) -> None:
    if not qrels.nuggets:
        raise CollectionError("no query has a nugget to be evaluated on")
    if run and qrels.nuggets.keys().isdisjoint(run):
        raise CollectionError(
            f"none of the {len(run)} queries of run {run.name!r:.200} has judgments: "
            f"the run has {next(iter(run))!r:.200}, the judgments "
            f"{next(iter(qrels.nuggets))!r:.200}; evaluate it on the collection it was made for"
        )


def _warn_of_unknown_ids(qrels: NuggetQrels, run: Run) -> None:
    judged = set().union(*qrels.labels.values())
    found = chain.from_iterable(run.ids.values())
    first = next(found, None)
    if judged and first is not None and judged.isdisjoint(chain([first], found)):
        warnings.warn(
            f"no document of run {run.name!r:.200} is in the judgments, as {first!r:.200}: "
            "are they of the same corpus?",
            stacklevel=3,
        )


def _known_chunks(qrels: NuggetQrels, run: Run, unknown_ids: UnknownIds) -> tuple[Run, int]:
    """Give the run without the chunks that the corpus does not have, and how many they are."""
    if qrels.chunk_ids is None:
        return run, 0
    found = [
        chunk_id for query, ids in run.ids.items() if query in qrels.nuggets for chunk_id in ids
    ]
    ids = set(found)
    unknown = ids - qrels.chunk_ids
    if not unknown:
        return run, 0
    if unknown_ids == "error":
        raise CollectionError(
            f"{len(unknown):,} of {len(ids):,} chunk ids of run {run.name!r:.200} are not in the "
            f"corpus, as {min(unknown)!r:.200}: is it a run of this collection? "
            f"evaluate and compare leave them out with {argument('unknown_ids', 'drop')}"
        )
    return run.of_chunks(ids - unknown), sum(map(unknown.__contains__, found))
