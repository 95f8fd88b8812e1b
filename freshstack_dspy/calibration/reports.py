"""Reports whose sub-questions a judge rated and people mark, and their Cov(y) by both (CRUX, §4.3)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.measures.statistics import (
    Correlations,
    Interval,
    correlation_intervals,
    kendall_intervals,
    mean_interval,
)
from freshstack_dspy.records import AssignedNugget, Record, ReportLabel, Scale
from freshstack_dspy.rows import Row, read_rows
from freshstack_dspy.text import named_nearest

ReportId = tuple[str, str]
"""query_id, run_id"""
Coverages = Mapping[ReportId, float]
"""Cov(y) of each report."""
RecordT = TypeVar("RecordT", bound=Record)
REPORTS = 30
"""How many reports each of CRUX's annotators read, with 15 sub-questions each."""


class RatedReport(NamedTuple):
    """A report, and the judge's ratings of the answerable sub-questions of its query."""

    text: str
    ratings: dict[str, AssignedNugget]
    """By the id of the sub-question, in the order of the collection."""
    scale: Scale

    def answers(self, nugget_id: str) -> int | None:
        """Say whether the judge finds the answer, 1 or 0; None if the rating failed."""
        label = self.ratings[nugget_id].label
        return None if label is None else int(label >= self.scale.threshold)

    def evidence(self, nugget_id: str) -> tuple[tuple[int, int], ...]:
        """Give the places that the judge quotes, in characters."""
        data = self.text.encode()
        return tuple(
            (len(data[:start].decode(errors="ignore")), len(data[:end].decode(errors="ignore")))
            for start, end in self.ratings[nugget_id].evidence
        )


def read_reports(path: Path, collection: Collection) -> dict[ReportId, RatedReport]:
    """Read the rated reports that `freshstack contexts --out` or `freshstack answer` wrote.

    Only the answerable sub-questions are given, which are all that `contexts` wrote, at its
    threshold; reports that failed are left out.

    Args:
        path: The file of `contexts`, or the folder of `answer`.
        collection: The collection whose queries they are about.

    Raises:
        SourceError: The file cannot be read, or a line is not a rated report.
        CollectionError: A report is on a query that the collection lacks.
    """
    account = None
    if path.is_dir():
        account, path = next(iter(read_rows(path / "answering.json"))), path / "assignments.jsonl"
    qrels = collection.qrels()
    queries = {query.query_id for query in collection.queries}
    reports: dict[ReportId, RatedReport] = {}
    for row in read_rows(path):
        query_id, run_id = row.id("query_id", "qid"), row.id("run_id")
        if query_id not in queries:
            nearest = named_nearest(query_id, queries, "queries.jsonl")
            raise CollectionError(f"{row.place}: there is no query {query_id!r:.200}; {nearest}")
        if (query_id, run_id) in reports:
            raise CollectionError(
                f"{row.place}: the report of run {run_id!r:.200} on query {query_id!r:.200} is "
                "there twice; keep one"
            )
        text = row.text("text", "answer_text")
        if not text or query_id not in qrels.nuggets:
            continue
        rated = [_validated(each, AssignedNugget) for each in row.inners("nuggets")]
        answerable = qrels.judged(query_id).answerable_ids
        ratings = {
            each.nugget_id: each
            for each in rated
            if account is None or each.nugget_id in answerable
        }
        if not (account or row).has("scale"):
            raise (account or row).fault("scale", "the scale of the ratings, with its threshold")
        scale = _validated((account or row).inner("scale"), Scale)
        reports[query_id, run_id] = RatedReport(text, ratings, scale)
    return reports


def report_strata(reports: Mapping[ReportId, RatedReport]) -> dict[ReportId, str]:
    """Give the stratum of each report with sub-questions.

    It is the report's run, or the same for all if there are more than `REPORTS` runs, as with
    sampled contexts.
    """
    rated = [report_id for report_id, report in reports.items() if report.ratings]
    by_run = len({run_id for _, run_id in rated}) <= REPORTS
    return {report_id: f"run {report_id[1]}" if by_run else "any run" for report_id in rated}


def _validated(row: Row, record: type[RecordT]) -> RecordT:
    try:
        return record.model_validate(row.values)
    except ValidationError as error:
        raise SourceError(f"{row.place}: not a rated report: {first_fault(error)}") from None


class Correlated(Record):
    """How Cov(y) by two raters correlates over reports."""

    raters: str
    reports: int
    """The number of reports with a value by both; of each two people, all together."""
    correlations: Correlations


class RunCoverage(Record):
    """Mean Cov(y) of the labelled reports of a run."""

    run_id: str
    judge: Interval
    people: Interval


class CoverageAgreement(Record):
    """Cov(y) of the same reports by the judge and by people (CRUX, Figure 4).

    By a person, it is the share of the answerable sub-questions that the report answers, as they
    say.
    """

    correlated: tuple[Correlated, ...]
    """The judge with the mean of people; if there are several, also with each, and each two people
    with each other."""
    runs: tuple[RunCoverage, ...]
    over_runs: Interval | None
    """Kendall's tau-b of the runs' means by people and by the judge; None below three runs."""
    left_out: int
    """How many reports a person labelled in part only, or have a failed rating."""


def coverage_agreement(
    reports: Mapping[ReportId, RatedReport], labels: Iterable[ReportLabel]
) -> CoverageAgreement | None:
    """Compare Cov(y) by people and by the judge; None if nobody labelled a whole report.

    Args:
        reports: The rated reports.
        labels: Labels of sub-questions of these reports.
    """
    given: dict[tuple[str, ReportId], dict[str, int]] = {}
    for label in labels:
        report_id = label.query_id, label.run_id
        given.setdefault((label.annotator, report_id), {})[label.nugget_id] = label.label
    judge: dict[ReportId, float] = {}
    people: dict[str, dict[ReportId, float]] = {}
    for (annotator, report_id), answers in sorted(given.items()):
        report = reports[report_id]
        ratings = [report.answers(nugget_id) for nugget_id in report.ratings]
        rated = [answer for answer in ratings if answer is not None]
        if answers.keys() == report.ratings.keys() and len(rated) == len(ratings):
            judge[report_id] = fmean(rated)
            people.setdefault(annotator, {})[report_id] = fmean(answers.values())
    if not people:
        return None
    mean = {
        report_id: fmean(values[report_id] for values in people.values() if report_id in values)
        for report_id in sorted(judge)
    }
    correlated = [_correlated("judge and people", [(judge, mean)])]
    if len(people) > 1:
        correlated += [_correlated(f"judge and {name}", [(judge, people[name])]) for name in people]
        pairs = [(people[one], people[other]) for one, other in combinations(people, 2)]
        correlated.append(_correlated("people, each two", pairs))
    by_judge, by_people = _by_run(judge), _by_run(mean)
    pair = "judge", "people"
    tables = {"judge": by_judge, "people": by_people}
    return CoverageAgreement(
        correlated=tuple(correlated),
        runs=tuple(
            RunCoverage(
                run_id=run_id, judge=mean_interval(values), people=mean_interval(by_people[run_id])
            )
            for run_id, values in by_judge.items()
        ),
        over_runs=kendall_intervals(tables, [pair])[pair] if len(by_judge) > 2 else None,
        left_out=len(given) - sum(map(len, people.values())),
    )


def _correlated(raters: str, pairs: Sequence[tuple[Coverages, Coverages]]) -> Correlated:
    both = [
        ({id_: one[id_] for id_ in shared}, {id_: other[id_] for id_ in shared})
        for one, other in pairs
        for shared in [one.keys() & other.keys()]
    ]
    return Correlated(
        raters=raters,
        reports=sum(len(one) for one, _ in both),
        correlations=correlation_intervals(both),
    )


def _by_run(coverages: Coverages) -> dict[str, dict[str, float]]:
    """Group by run, then by query."""
    by_run: dict[str, dict[str, float]] = {}
    for (query_id, run_id), coverage in sorted(coverages.items()):
        by_run.setdefault(run_id, {})[query_id] = coverage
    return dict(sorted(by_run.items()))
