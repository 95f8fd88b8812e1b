"""The page of scores of answers: means with intervals, counts, and what is missing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from freshstack_dspy.answering.scores import RunScores, Scores
from freshstack_dspy.pages.page import Page, Table, counted, cut, interval, names_by, notes
from freshstack_dspy.pages.shown import page_of

By = Literal["run", "answer"]
GOLD = "gold"
"""The name of the run of answers from gold chunks."""
_REASONS = 5
"""How many reasons for missing values are listed."""


@page_of.register
def scores_page(
    scores: Scores,
    measures: Sequence[str] = (),
    counts: Sequence[str] = (),
    *,
    by: By = "run",
) -> Page:
    """Give the page of scores.

    Args:
        scores: The scores of answers.
        measures: The measures that are shown; by default all.
        counts: The counts that are shown.
        by: Whether a row is a run or an answer.
    """
    measures = measures or scores.measures
    number = counted(scores.runs[0].about.measured, "query", "queries")
    title = f"{counted(len(scores.runs), 'run')}, {number}; each query the same weight"
    if by == "run":
        title += "; with 95% bootstrap intervals"
        tables = [*run_tables(scores, measures, counts)]
        rows = Table.of(scores.runs, _run_columns(measures, counts))
    else:
        answers = [
            {"run": run.run, "query_id": query, **run.counts[query], **values}
            for run in scores.runs
            for query, values in run.per_query.items()
        ]
        keys = {name: _field(name) for name in ("run", "query_id")}
        values = {name.replace("_", " "): _field(name) for name in measures}
        numbers = {name: _field(name) for name in counts}
        tables = [Table.of(answers, keys | values, keys=2, ids=(0, 1))]
        if counts:
            tables.append(Table.of(answers, keys | numbers, keys=2, ids=(0, 1)))
        exact = {name: _field(name) for name in measures}
        rows = Table.of(answers, keys | exact | numbers)
    return Page(title, (*tables, *notes(*missing_lines(scores, measures))), dict(scores), rows)


def _field(name: str) -> Any:
    return lambda answer: answer.get(name)


def _run_columns(measures: Sequence[str], counts: Sequence[str]) -> dict[str, Any]:
    """The columns of a table of runs with all digits."""

    def end(measure: str, name: str) -> Any:
        return lambda run: getattr(run.intervals[measure], name)

    def total(name: str) -> Any:
        return lambda run: run.total[name]

    columns: dict[str, Any] = {"run": "run", "answers": lambda run: len(run.per_query)}
    for measure in measures:
        columns[measure] = end(measure, "value")
        columns |= {f"{measure}_{name}": end(measure, name) for name in ("low", "high")}
    columns |= {name: total(name) for name in counts}
    return columns | {"absent": lambda run: len(run.absent)}


def run_tables(scores: Scores, measures: Sequence[str], counts: Sequence[str]) -> Iterator[Table]:
    """Give the means by measure and run, and the counts by run; the gold answers come last."""
    values = [(name, *cells) for name, _, cells in means_by_run(scores, measures)]
    yield Table(("measure", "run", "mean", "95 %"), values, keys=2, ids=(1,))
    yield Table.of(_ordered(scores), _run_columns((), counts), ids=(0,))


def means_by_run(
    scores: Scores, measures: Sequence[str]
) -> Iterator[tuple[str, RunScores, tuple[str, str, str]]]:
    """Give the measure, the run, and what is shown: its name, the mean, and its interval."""
    for name in measures:
        for run in _ordered(scores):
            mean = interval(run.intervals[name])
            yield name, run, (run.run, mean.number, mean.interval)


def _ordered(scores: Scores) -> list[RunScores]:
    """Order the runs by name; the gold answers come last."""
    return sorted(scores.runs, key=lambda run: (run.run == GOLD, _by_depth(run.run)))


def _by_depth(run: str) -> tuple[str, int]:
    """Order NAME@5 before NAME@10."""
    name, _, depth = run.rpartition("@")
    return (name, int(depth)) if depth.isdecimal() else (run, 0)


def missing_lines(scores: Scores, measures: Sequence[str]) -> Iterator[str]:
    """Say what was missing, how it counts, and why there is no value."""
    total: Counter[str] = Counter()
    for run in scores.runs:
        total.update(run.total)
    for number, what in (
        (total["failed"] + total["missing"], "nuggets without an assignment: they do not count"),
        (total["outside"], "citations outside of the references: they support nothing"),
        (total["undecided"], "answers without a verdict: they do not count"),
        (total["unrated"], "nuggets without importance: they count in A and A_strict only"),
        *((total[name], name) for name in sorted(total) if name.startswith("undecided: ")),
    ):
        if number:
            yield f"{number:,} {what}"
    absent = [(run.run, query) for run in scores.runs for query in run.absent]
    if absent:
        yield (
            f"absent, of queries that other runs answer or that nothing was retrieved for: "
            f"{len(absent):,}; they do not count, such as that of {absent[0][0]!r} to query {absent[0][1]!r}"
        )
    reasons = names_by(
        (cut(reason, 200), f"{name} of {run.run}")
        for run in scores.runs
        for name in measures
        for reason in run.without_value.get(name, {}).values()
    )
    common = sorted(reasons.items(), key=lambda each: -len(each[1]))
    for why, names in common[:_REASONS]:
        yield f"no value, {counted(len(names), 'time')}, such as {names[0]}: {why}"
    if len(common) > _REASONS:
        yield f"and {len(common) - _REASONS:,} more reasons; --json has them all"
    whys = {run.intervals[name].reason for run in scores.runs for name in measures} - {None}
    yield from (f"no interval: {why}" for why in sorted(map(str, whys)))
