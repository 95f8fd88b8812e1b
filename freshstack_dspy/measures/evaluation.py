"""The evaluation of a run: its values by query and measure, and what was missing.

Rankings, answers, contexts and the differences of two runs all have such values; means and groups
are computed from them.
"""

import warnings
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, get_args

from pydantic import Field, computed_field

from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.measures.measure import Cutoff, Measure, MeasureSource, parse_measures
from freshstack_dspy.measures.passage_labels import judge_passages, spans_of
from freshstack_dspy.measures.qrels import About, NuggetQrels, QrelsSource, to_qrels
from freshstack_dspy.measures.run import (
    PassageRun,
    Run,
    RunSource,
    is_passages,
    is_searches,
    to_run,
)
from freshstack_dspy.measures.searches import read_searches
from freshstack_dspy.measures.statistics import (
    Interval,
    macro_interval,
    mean_intervals,
    weighted_mean,
)
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DRY_RUN, Record, is_oracle
from freshstack_dspy.rows import load_pandas, read_csv

if TYPE_CHECKING:
    import pandas as pd

FRESHSTACK_MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
"""What the FreshStack paper reports."""

MEASURES_VERSION = 2
"""Raised whenever the same run may get another value on the same judgments: a formula, a tie rule,
what a missing query counts, how an interval is drawn. Values of different versions are not
compared; they are computed again from the stored runs."""

UnknownIds = Literal["error", "drop"]
"""What is done with chunk ids of a run that the corpus does not have."""
Conventions = Literal["ours", "trec_eval", "ndeval"]
"""Whose rules are followed: `ours`; `trec_eval`, which keeps scores in single precision, puts the
larger of two tied ids first, and leaves out queries that the run lacks; or `ndeval`, which also
leaves out queries without results."""


class Rules(TypedDict, total=False):
    """Further arguments of `evaluate` and `compare`."""

    conventions: Conventions
    """How ties and missing queries are treated: `ours` (the default), or like another program, so
    that the values are those that it prints."""
    unknown_ids: UnknownIds
    """What to do with results whose chunk ids are not in the corpus, if its ids are known: `error`
    (the default), or `drop` them."""
    covered: float
    """For a run of passages, the share of the evidence that a passage must hold to support a nugget:
    above 0 and at most 1 (the default)."""


class Values(Record):
    """The values of one run."""

    run: str
    measures: tuple[str, ...]
    """In the order asked for."""
    per_query: dict[str, dict[str, float]]
    """By query and measure; queries that do not count are left out."""
    without_value: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By measure, the queries for which it has no value, and why; measures that have a value for all
    queries are left out."""
    dry_run: bool = False
    """Whether a word counter made labels, so that nothing is concluded from the values."""
    judged_only: dict[str, dict[str, float]] = Field(default_factory=dict, exclude=True, repr=False)
    """Like `per_query`, after chunks without a label are removed from the rankings, if requested;
    written nowhere."""
    questions: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """The texts of the queries, where they are known; written nowhere."""
    weights: dict[str, float] = Field(default_factory=dict, exclude=True, repr=False)
    """How often users asked each query, its weight in every mean; 1 where missing. Written with the
    queries."""
    about: About = Field(default_factory=About, exclude=True, repr=False)
    """The judgments; written nowhere."""

    @classmethod
    def of(cls, run: str, columns: Mapping[str, Mapping[str, float]], **more: Any) -> Self:
        """Make values from columns: by measure, the values by query."""
        per_query: dict[str, dict[str, float]] = {}
        for measure, column in columns.items():
            for query, value in column.items():
                per_query.setdefault(query, {})[measure] = value
        return cls(run=run, measures=tuple(columns), per_query=per_query, **more)

    @property
    def is_oracle(self) -> bool:
        """Whether it was searched with the answer or its nuggets, as its name says."""
        return is_oracle(self.run)

    @property
    def unjudged_shares(self) -> dict[Cutoff, float | None]:
        """By cut-off, the mean share of the top that has no label; empty without a ranking."""
        return {}

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def means(self) -> dict[str, float]:
        """By measure, the mean over all queries with a value; 0 if no query has a value.

        Where queries have weights, this is Σ w v / Σ w: the mean per question that users asked.
        """
        columns = {name: self.values(name) for name in self.measures}
        return {
            name: weighted_mean(values, self.weights) if values else 0.0
            for name, values in columns.items()
        }

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The means with their 95% bootstrap intervals over queries, by measure."""
        columns = {name: self.values(name) for name in self.measures}
        return mean_intervals(columns, weights=self.weights)

    def values(
        self, measure: str, *, only_defined: bool = False, judged_only: bool = False
    ) -> dict[str, float]:
        """Give the values of one measure by query.

        Args:
            measure: The name of the measure.
            only_defined: Leave out the queries that count 0 because the measure has no value.
            judged_only: Give the values of the judged chunks alone.
        """
        without = self.without_value.get(measure, {}) if only_defined else {}
        by_query = self.judged_only if judged_only else self.per_query
        return {
            query: values[measure]
            for query, values in by_query.items()
            if measure in values and query not in without
        }

    def only(self, queries: Iterable[str]) -> "Values":
        """Give the values of some queries, in their order."""
        per_query = {query: self.per_query[query] for query in queries if query in self.per_query}
        more = {"dry_run": self.dry_run, "about": self.about, "weights": self.weights}
        return Values(run=self.run, measures=self.measures, per_query=per_query, **more)

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each query and a column for each measure.

        For a collection, the first column is the question's text.
        """
        pd = load_pandas()
        table = pd.DataFrame.from_dict(self.per_query, orient="index", columns=[*self.measures])
        if self.questions:
            table.insert(0, "question", [self.questions.get(query) for query in self.per_query])
        return table.rename_axis("query_id")


class Unjudged(Record):
    """How much of the top k of a run was not judged."""

    k: Cutoff
    shares: dict[str, float]
    """For each query with results, the share of its top k chunks (of all, if there are fewer) that
    are not judged: they have no label, or a failed judgment and no label of support. For a run of
    passages, the mean share of each passage's bytes that are in no judged chunk."""
    failed: dict[str, int]
    """By query, the number of failed judgments (nugget, chunk) of chunks in its top k; queries
    without one are left out."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mean(self) -> float | None:
        """The mean of these shares; None where no query has results."""
        return fmean(self.shares.values()) if self.shares else None


class PassageNotes(Record):
    """Notes for reading the evaluation of a run of passages."""

    covered: float
    """The share of the evidence that a passage must hold to support a nugget."""
    passages: int
    """How many passages at distinct places there are."""
    repeated: int
    """How many results repeat the place of another result of their query; the better score counts."""
    unplaced: int
    """How many results have no known place; they keep their ranks, and support nothing."""
    placed_share: float
    labels: int
    """How many labels of support the measured nuggets have."""
    without_evidence: int
    """How many of these have no evidence, and count by their whole chunk."""


class Evaluation(Values, Shown):
    """The result of `evaluate`. A measure without a value for a query counts 0."""

    absent: tuple[str, ...] = ()
    """Queries of the judgments that are not in the run: 0 in every measure, unless the conventions
    leave them out."""
    empty: tuple[str, ...] = ()
    """Queries whose ranking is empty; they count in the same way."""
    without_relevant: tuple[str, ...] = ()
    """Queries without a nugget that a labelled chunk supports; most measures have no value for
    them."""
    unknown: tuple[str, ...] = ()
    """Queries of the run that have no judgments; they are ignored."""
    unknown_chunks: int = 0
    """How many results were dropped because the corpus does not have them."""
    most_results: int = 0
    """The largest number of results of a judged query; a deeper cut-off may exceed the run's own."""
    tied: tuple[str, ...] = ()
    """Queries with two or more chunks that all have the same score, so that the ids and not the
    retriever decide their order."""
    conventions: Conventions = "ours"
    only_relevant: bool = False
    """Whether the judgments list relevant chunks alone, as a golden set does, so that every other
    chunk counts as not relevant."""
    unjudged: tuple[Unjudged, ...] = ()
    """For each cut-off of the measures (smallest first, those in tokens last), how much of the top
    was not judged; empty where `only_relevant`."""
    passages: PassageNotes | None = None
    """Notes on a run of passages."""

    @property
    def unjudged_shares(self) -> dict[Cutoff, float | None]:
        """By cut-off, the mean share of the top that has no label."""
        return {top.k: top.mean for top in self.unjudged}

    @property
    def mostly_unjudged(self) -> tuple[Cutoff, ...]:
        """The cut-offs at which most of the top is unjudged, so that values say little of the run."""
        return tuple(k for k, share in self.unjudged_shares.items() if (share or 0) > 0.5)

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        notes = self.passages
        placed = "" if notes is None else f", {notes.placed_share:.1%} of the results placed"
        dry = f", {DRY_RUN}" if self.dry_run else ""
        return f"Evaluation({self.run!r}, {len(self.per_query):,} queries{placed}, {means}{dry})"

    __str__ = __repr__


def read_run_of(qrels: NuggetQrels, source: RunSource, name: str = "run") -> Run | PassageRun:
    """Give a run in any form; a file of passages needs the judgments of a collection.

    For a file of searches, the run is everything that was shown, in that order.

    Raises:
        CollectionError: It cannot be read, or the judgments are not of a collection.
    """
    if isinstance(source, str | Path) and is_searches(source):
        return read_searches(source, qrels.spans and qrels.spans()).union()
    if isinstance(source, str | Path) and is_passages(source):
        return spans_of(qrels, Path(source).name).read(Path(source))
    return to_run(source, name)


def evaluate(
    qrels: QrelsSource,
    run: RunSource,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    conventions: Conventions = "ours",
    unknown_ids: UnknownIds = "error",
    covered: float = 1.0,
    judged_only: bool = False,
) -> Evaluation:
    """Evaluate a run on judgments; arguments and errors are those of `freshstack_dspy.evaluate`.

    With `judged_only` the values of the judged chunks alone are computed too, for a comparison
    (Sakai, Alternatives to Bpref, SIGIR 2007), unless the judgments list only relevant chunks.
    """
    if not 0 < covered <= 1:
        raise ConfigError(f"covered is a share above 0 and at most 1, not {covered!r}")
    if conventions not in get_args(Conventions):
        allowed = ", ".join(map(repr, get_args(Conventions)))
        raise ConfigError(f"there are no conventions {conventions!r}; there are {allowed}")
    chosen = parse_measures(measures)
    judgments, passages, dropped = to_qrels(qrels), None, 0
    reference, measured_run = judgments, read_run_of(judgments, run)
    if isinstance(measured_run, PassageRun):
        passages = _notes(judgments, measured_run, covered)
        judgments, measured_run = judge_passages(measured_run, judgments, covered)
        _check_queries(judgments, measured_run)
    else:
        _check_queries(judgments, measured_run)
        measured_run, dropped = _known_chunks(judgments, measured_run, unknown_ids)
    queries, ids = judgments.nuggets, measured_run.ids
    ordered = _as_trec_eval(measured_run) if conventions == "trec_eval" else measured_run
    left_out = {
        "ours": (),
        "trec_eval": [query for query in queries if query not in ids],
        "ndeval": [query for query in queries if not ids.get(query)],
    }[conventions]
    only_relevant = not _has_negatives(reference)
    condensed = judged_only and not only_relevant
    without_value: dict[str, dict[str, str]] = {}
    values = {
        query: _measured(query, judgments, ordered, chosen, without_value, conventions, condensed)
        for query in queries
        if query not in left_out
    }
    cuts = {each.cutoff: each for each in chosen if each.cutoff is not None}
    cutoffs = sorted(cuts.values(), key=lambda each: (each.budget or 0, each.k or 0))
    return Evaluation(
        run=measured_run.name,
        measures=tuple(measure.name for measure in chosen),
        per_query={query: of_all for query, (of_all, _) in values.items()},
        without_value=without_value,
        judged_only={query: of_judged for query, (_, of_judged) in values.items() if condensed},
        absent=tuple(query for query in queries if query not in ids),
        empty=tuple(query for query in queries if ids.get(query) == ()),
        without_relevant=tuple(q for q in queries if not reference.judged(q).supported),
        unknown=tuple(query for query in ids if query not in queries),
        unknown_chunks=dropped,
        most_results=max((len(ids.get(query, ())) for query in queries), default=0),
        tied=tuple(query for query in queries if _all_tied(measured_run, query)),
        conventions=conventions,
        only_relevant=only_relevant,
        unjudged=() if only_relevant else _unjudged(judgments, ordered, cutoffs),
        passages=passages,
        dry_run=judgments.dry_run,
        questions={q: text for q, text in judgments.questions.items() if q in values},
        weights=dict(judgments.weights),
        about=judgments.about.model_copy(update={"measured": len(queries)}),
    )


def _measured(
    query: str,
    qrels: NuggetQrels,
    run: Run,
    measures: Sequence[Measure],
    without_value: dict[str, dict[str, str]],
    conventions: Conventions,
    condensed: bool,
) -> tuple[dict[str, float], dict[str, float]]:
    """Give the value of each measure for a query, and that of the judged chunks alone.

    Measures without a value are entered into `without_value`.
    """
    ranking = run.ids.get(query, ())
    alone: dict[int | None, tuple[str, ...]] = {}
    """By the lowest relevant grade: a failed judgment has none, and may be judged at another."""
    values: dict[str, float] = {}
    values_alone: dict[str, float] = {}
    # The lowest relevant grade of trec_eval leaves the gains of nDCG as they are.
    all_grades = {"nDCG"} if conventions == "trec_eval" and qrels.plain else ()
    for measure in measures:
        judged = qrels.judged(query, 1 if measure.family in all_grades else measure.rel)
        try:
            value = of_judged = measure(ranking, judged)
            if condensed and measure.family != "Judged":
                if measure.rel not in alone:
                    labelled = qrels.judged(query, measure.rel).chunks
                    alone[measure.rel] = tuple(filter(labelled.__contains__, ranking))
                if alone[measure.rel][: measure.k] != ranking[: measure.k]:
                    of_judged = measure(alone[measure.rel], judged)
        except CollectionError as error:
            raise CollectionError(f"run {run.name!r:.200}, query {query!r:.200}: {error}") from None
        if value is None:
            why = "no value" if judged.reference.supported else "no relevant chunk"
            without_value.setdefault(measure.name, {})[query] = why
        values[measure.name] = value or 0.0
        if condensed:
            values_alone[measure.name] = of_judged or 0.0
    return values, values_alone


def _as_trec_eval(run: Run) -> Run:
    """Order by scores in single precision, the larger of two tied ids first."""
    scores = {}
    for query, chunk_scores in run.scores.items():
        single = dict(zip(chunk_scores, array("f", chunk_scores.values()), strict=True))
        ranking = sorted(chunk_scores, key=lambda chunk: (single[chunk], chunk), reverse=True)
        scores[query] = {chunk: float(-rank) for rank, chunk in enumerate(ranking)}
    return Run.from_scores(scores, name=run.name)


def _notes(qrels: NuggetQrels, run: PassageRun, covered: float) -> PassageNotes:
    labels = without = 0
    spans = None if qrels.spans is None else qrels.spans()
    for query, nuggets in qrels.nuggets.items():
        of_query = () if spans is None else spans.labels(query).values()
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


def _unjudged(qrels: NuggetQrels, run: Run, measures: Sequence[Measure]) -> tuple[Unjudged, ...]:
    shares: list[dict[str, float]] = [{} for _ in measures]
    failed: list[dict[str, int]] = [{} for _ in measures]
    for query in qrels.nuggets:
        judged, ranking = qrels.judged(query), run.ids.get(query, ())
        tops = [measure.top(ranking, judged) for measure in measures]
        deepest = max(tops, key=len) if qrels.passages is None and tops else ()
        labelled = [*map(judged.chunks.__contains__, deepest)]
        for place, top in enumerate(tops):
            if not top:
                continue
            if qrels.passages is None:
                shares[place][query] = (len(top) - sum(labelled[: len(top)])) / len(top)
            else:
                by_passage = qrels.passages.unjudged[query]
                shares[place][query] = fmean(map(by_passage.__getitem__, sorted(top)))
            if judged.failed:
                met = sum(len(qrels.failed[nugget].intersection(top)) for nugget in judged.labels)
                failed[place] |= {query: met} if met else {}
    return tuple(
        Unjudged(k=measure.cutoff or 0, shares=share, failed=fail)
        for measure, share, fail in zip(measures, shares, failed, strict=True)
    )


def _has_negatives(qrels: NuggetQrels) -> bool:
    """Whether any chunk was judged not relevant; some judgments list relevant chunks only."""
    labels = chain.from_iterable(by_chunk.values() for by_chunk in qrels.labels.values())
    return any(label < qrels.threshold for label in labels)


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


def _known_chunks(qrels: NuggetQrels, run: Run, unknown_ids: UnknownIds) -> tuple[Run, int]:
    """Give the run without chunks that the corpus does not have, and how many were left out."""
    if qrels.chunk_ids is None:
        if any(
            not qrels.judged(query).chunks.isdisjoint(ids)
            for query, ids in run.ids.items()
            if query in qrels.nuggets
        ):
            return run, 0
        judged = set().union(*qrels.labels.values())
        first = next(chain.from_iterable(run.ids.values()), None)
        if judged and first and judged.isdisjoint(chain.from_iterable(run.ids.values())):
            warnings.warn(
                f"no document of run {run.name!r:.200} is in the judgments, such as {first!r:.200}: "
                "are they of the same corpus?",
                stacklevel=3,
            )
        return run, 0
    retrieved = [ids for query, ids in run.ids.items() if query in qrels.nuggets]
    ids = set().union(*retrieved)
    unknown = ids - qrels.chunk_ids
    if not unknown:
        return run, 0
    if unknown_ids == "error":
        raise CollectionError(
            f"{len(unknown):,} of {len(ids):,} chunk ids of run {run.name!r:.200} are not in the "
            f"corpus, such as {min(unknown)!r:.200}: is it a run of this collection? "
            f"evaluate and compare leave them out with {argument('unknown_ids', 'drop')}"
        )
    dropped = sum(map(unknown.__contains__, chain.from_iterable(retrieved)))
    return run.of_chunks(ids - unknown), dropped


# Groups of queries


class QueryGroups(Record):
    """Queries by group."""

    by: str
    """What the queries are grouped by, such as `tag`."""
    rule: str
    """How a query gets into a group, in one sentence."""
    members: dict[str, tuple[str, ...]]
    """The ascending query ids of each group, with groups in display order. A query may be in several
    groups, or in none."""

    def by_query(self) -> dict[str, tuple[str, ...]]:
        """Give the groups that each query is in, by query id; queries in none are left out."""
        groups: dict[str, list[str]] = {}
        for group, ids in self.members.items():
            for query_id in ids:
                groups.setdefault(query_id, []).append(group)
        return {query_id: tuple(groups[query_id]) for query_id in sorted(groups)}


@dataclass(frozen=True)
class Grouped:
    """The values of a run by groups of queries."""

    by: str
    rule: str
    groups: dict[str, Values]
    """The values of the queries of each listed group, in the order of the groups."""
    unlisted: int
    """How many groups with measured queries are not listed."""
    macro: dict[str, Interval]
    """By measure, the mean of the means of all groups that have one, listed or not."""
    ungrouped: tuple[str, ...]
    """The measured queries that are in no group, and so not in the macro-average."""


def grouped(values: Values, groups: QueryGroups, *, limit: int | None = None) -> Grouped:
    """Give the values of a run by group, and the macro-average, the mean of the groups' means.

    Its interval comes from drawing whole queries, see `macro_interval`.

    Source: macro-averaging: Sebastiani, Machine Learning in Automated Text Categorization, 2002,
    section 7.1.

    Args:
        values: The values of one run.
        groups: The groups; queries that were not measured are ignored.
        limit: How many groups are listed, the largest first; None: all.
    """
    members = {
        name: [query for query in ids if query in values.per_query]
        for name, ids in groups.members.items()
    }
    members = {name: ids for name, ids in members.items() if ids}
    listed = set(sorted(members, key=lambda name: (-len(members[name]), name))[:limit])
    topics = {
        query: names for query, names in groups.by_query().items() if query in values.per_query
    }
    within = values.only(topics)
    return Grouped(
        by=groups.by,
        rule=groups.rule,
        groups={name: values.only(ids) for name, ids in members.items() if name in listed},
        unlisted=len(members) - len(listed),
        macro={
            name: macro_interval(within.values(name), topics, weights=values.weights)
            for name in values.measures
        },
        ungrouped=tuple(query for query in values.per_query if query not in topics),
    )


_TABLE = "a table has the header query_id,group, or query_id and what it groups by, as topic"


def read_groups(path: Path | str, query_ids: Iterable[str]) -> QueryGroups:
    """Read which group each query is in.

    The table has the header `query_id` and `group`. If there are only two columns, the second may
    have another name, which then names the grouping; otherwise the file's name does. A query on
    several lines is in several groups, and a query on no line is in none.

    Args:
        path: A CSV file in UTF-8, with commas or tabs between the cells.
        query_ids: All queries of the collection.
    """
    path, existing = Path(path), frozenset(query_ids)
    members: dict[str, set[str]] = {}
    by = path.stem
    for row in read_csv(path, ("query_id", "group")):
        others = [name for name in row.values if name != "query_id"]
        column = "group" if "group" in row.values else others[0] if len(others) == 1 else ""
        query_id, group = row.values.get("query_id"), (row.values.get(column) or "").strip()
        if not query_id or not group:
            raise CollectionError(f"{row.place}: {_TABLE}")
        if query_id not in existing:
            raise CollectionError(
                f"{row.place}: there is no query {query_id!r:.200} in the collection; is the file "
                "of another one?"
            )
        by = path.stem if column == "group" else column
        members.setdefault(group, set()).add(query_id)
    if not members:
        raise CollectionError(f"{path}: the file names no query; {_TABLE}")
    ordered = {group: tuple(sorted(members[group])) for group in sorted(members)}
    return QueryGroups(by=by, rule="as the file says", members=ordered)
