"""What answers scored: every value kept, means by run and by query, what was missing."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.statistics import Interval, mean_interval
from freshstack_dspy.records import Record

Empty = Literal["skip", "zero"]
"""What an answer counts in a measure that it has nothing for: it is left out, or 0."""
Absent = Literal["skip", "zero"]
"""What a query counts that other runs answer and this one does not, or for which it retrieved
nothing to answer from: it is left out, or 0."""
NOT_RETRIEVED = "not_retrieved"
"""The status of such an answer: nobody was asked for one."""


class Sampling(NamedTuple):
    """How the bootstrap intervals of the means are drawn."""

    level: float = 0.95
    resamples: int = 2_000
    seed: int = 0


class AnswerScore(Record):
    """What one answer scored.

    Attributes:
        run: Which system wrote it; of nuggets, who looked at them.
        query_id: Which question it answers.
        values: By measure; none of those that have no value for it.
        without: Of those that have none, why.
        counts: What was counted in it, as `failed`, whatever the measures make of it.
    """

    run: str
    query_id: str
    values: dict[str, float]
    without: dict[str, str]
    counts: dict[str, int]


class RunScore(Record):
    """The means of one run.

    Attributes:
        run: Its name.
        answers: How many answers it has.
        means: By measure, the mean over its queries, each the same weight, with its interval.
        counts: The sums of what was counted in its answers.
        without: By measure, the queries whose answer has no value.
        absent: The queries that other runs answer and this one does not, and those for which it
            retrieved nothing, ascending.
    """

    run: str
    answers: int
    means: dict[str, Interval]
    counts: dict[str, int]
    without: dict[str, tuple[str, ...]]
    absent: tuple[str, ...]


class QueryScore(Record):
    """The means of one query over the runs that have a value.

    Attributes:
        query_id: The query.
        answers: How many runs answer it.
        means: By measure; none of those without any value.
    """

    query_id: str
    answers: int
    means: dict[str, float]


class Scores(Record):
    """What a set of answers scored.

    Attributes:
        measures: Their names, in order.
        choices: What was chosen where there is a choice, as `missing` is `leave_out`.
        runs: By name; runs are never mixed in one mean.
        queries: By id.
        answers: By run and query.
    """

    measures: tuple[str, ...]
    choices: dict[str, str]
    runs: tuple[RunScore, ...]
    queries: tuple[QueryScore, ...]
    answers: tuple[AnswerScore, ...]

    def values(self, run: str, measure: str) -> dict[str, float]:
        """Give the values of one run's answers in one measure, by query id."""
        return {
            answer.query_id: answer.values[measure]
            for answer in self.answers
            if answer.run == run and measure in answer.values
        }


def answer_score(
    run: str, query_id: str, figures: Mapping[str, Estimate], counts: Mapping[str, int]
) -> AnswerScore:
    """Keep the figures of one answer, those without a value by their reason."""
    return AnswerScore(
        run=run,
        query_id=query_id,
        values={name: each.value for name, each in figures.items() if each.value is not None},
        without={name: each.reason for name, each in figures.items() if each.reason is not None},
        counts=dict(counts),
    )


def summarise(
    measures: Sequence[str],
    answers: Iterable[AnswerScore],
    *,
    choices: Mapping[str, str],
    absent: Absent = "skip",
    not_retrieved: Iterable[tuple[str, str]] = (),
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Take the means of each run, with bootstrap intervals over queries, and of each query.

    Args:
        measures: Their names, in order.
        answers: One for each run and query.
        choices: What was chosen, to be kept beside the figures.
        absent: What a query counts that a run does not answer.
        not_retrieved: Runs and queries for which there was nothing to answer from.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    by_run: dict[str, dict[str, AnswerScore]] = {}
    for answer in answers:
        own = by_run.setdefault(answer.run, {})
        if answer.query_id in own:
            raise CollectionError(
                f"run {answer.run!r} has two answers to query {answer.query_id!r}; keep one"
            )
        own[answer.query_id] = answer
    if not by_run:
        raise CollectionError("there are no answers to score")
    nothing: dict[str, set[str]] = {}
    for run, query in not_retrieved:
        if query in by_run.setdefault(run, {}):
            raise CollectionError(
                f"run {run!r} has an answer to query {query!r} and retrieved nothing for it; keep one"
            )
        nothing.setdefault(run, set()).add(query)
    named = [*by_run.values(), *nothing.values()]
    queries = sorted({query for own in named for query in own})
    ordered = tuple(by_run[run][query] for run in sorted(by_run) for query in sorted(by_run[run]))
    return Scores(
        measures=tuple(measures),
        choices={**choices, "absent": absent},
        runs=tuple(
            _run_score(measures, run, by_run[run], queries, absent, sampling)
            for run in sorted(by_run)
        ),
        queries=tuple(
            _query_score(measures, query, [own[query] for own in by_run.values() if query in own])
            for query in queries
        ),
        answers=ordered,
    )


def _run_score(
    measures: Sequence[str],
    run: str,
    answers: Mapping[str, AnswerScore],
    queries: Sequence[str],
    absent: Absent,
    sampling: Sampling,
) -> RunScore:
    missing = tuple(query for query in queries if query not in answers)
    means, without = {}, {}
    for measure in measures:
        values = {
            query: answer.values[measure]
            for query, answer in answers.items()
            if measure in answer.values
        }
        if left_out := tuple(query for query in sorted(answers) if query not in values):
            without[measure] = left_out
        if absent == "zero":
            values |= dict.fromkeys(missing, 0.0)
        means[measure] = mean_interval(values, *sampling)
    return RunScore(
        run=run,
        answers=len(answers),
        means=means,
        counts=add_counts(answer.counts for answer in answers.values()),
        without=without,
        absent=missing,
    )


def _query_score(measures: Sequence[str], query: str, answers: Sequence[AnswerScore]) -> QueryScore:
    values = {
        name: [each.values[name] for each in answers if name in each.values] for name in measures
    }
    return QueryScore(
        query_id=query,
        answers=len(answers),
        means={name: fmean(given) for name, given in values.items() if given},
    )


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up what was counted, name by name."""
    total: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0) + number
    return total
