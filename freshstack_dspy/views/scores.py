"""What is shown of scores of answers: means with intervals, what was counted, what is missing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from freshstack_dspy.answering.scores import RunScore, Scores
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Table,
    Text,
    counted,
    cut,
    interval,
    names_by,
    notes,
)
from freshstack_dspy.pages.shown import page_of

By = Literal["run", "answer"]
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
        scores: Of answers.
        measures: Those that are shown; by default all.
        counts: What was counted that is shown.
        by: What has a row.
    """
    measures = measures or scores.measures
    queries = {one.query_id for one in scores.answers}.union(*(one.absent for one in scores.runs))
    number = counted(len(queries), "query", "queries")
    title = f"{counted(len(scores.runs), 'run')}, {number}; each query the same weight"
    if by == "answer":
        parts: list[Table | Text] = list(_of_answers(scores, measures, counts))
    else:
        parts = list(scores_tables(scores, measures, counts))
        title += "; with 95% bootstrap intervals"
    lines = list(missing_lines(scores, measures))
    return Page(
        title,
        (*parts, *notes(*lines)),
        data=dict(scores),
        rows=_rows(scores, measures, counts, by),
    )


def scores_tables(
    scores: Scores,
    measures: Sequence[str],
    counts: Sequence[str],
    *,
    last: str = "",
) -> Iterator[Table]:
    """Give the means by measure and run, and what was counted by run; run `last` is below all."""
    runs = sorted(scores.runs, key=lambda one: (one.run == last, by_depth(one.run)))
    values = [
        (name, one.run, mean.number, mean.interval)
        for name in measures
        for one in runs
        for mean in [interval(one.means[name])]
    ]
    yield Table(("measure", "run", "mean", "95 %"), values, keys=2, ids=(1,))
    yield Table(
        ("run", "answers", *counts, "absent"), [_counted(one, counts) for one in runs], ids=(0,)
    )


def by_depth(run: str) -> tuple[str, int]:
    """Order NAME@5 before NAME@10."""
    name, _, depth = run.rpartition("@")
    return (name, int(depth)) if depth.isdecimal() else (run, 0)


def _counted(one: RunScore, counts: Sequence[str]) -> tuple[Cell, ...]:
    return (one.run, one.answers, *(one.counts.get(name, 0) for name in counts), len(one.absent))


def _of_answers(scores: Scores, measures: Sequence[str], counts: Sequence[str]) -> Iterator[Table]:
    keys = ("run", "query_id")
    values: list[tuple[Cell, ...]] = [
        (one.run, one.query_id, *map(one.values.get, measures)) for one in scores.answers
    ]
    numbers: list[tuple[Cell, ...]] = [
        (one.run, one.query_id, *(one.counts.get(name, 0) for name in counts))
        for one in scores.answers
    ]
    names = (name.replace("_", " ") for name in measures)
    yield Table((*keys, *names), values, keys=2, ids=(0, 1))
    if counts:
        yield Table((*keys, *counts), numbers, keys=2, ids=(0, 1))


def _rows(scores: Scores, measures: Sequence[str], counts: Sequence[str], by: By) -> Table:
    """A row for each run or answer, with all digits."""
    rows: list[list[Cell]] = []
    if by == "answer":
        for each in scores.answers:
            values = (*map(each.values.get, measures), *map(each.counts.get, counts))
            rows.append([each.run, each.query_id, *values])
        return Table(("run", "query_id", *measures, *counts), rows)
    for one in scores.runs:
        name, answers, *numbers = _counted(one, counts)
        means = (one.means[measure] for measure in measures)
        ends = (end for mean in means for end in (mean.value, mean.low, mean.high))
        rows.append([name, answers, *ends, *numbers])
    columns = (f"{name}{end}" for name in measures for end in ("", "_low", "_high"))
    return Table(("run", "answers", *columns, *counts, "absent"), rows)


def missing_lines(scores: Scores, measures: Sequence[str]) -> Iterator[str]:
    """Say what was missing, how it counts, and why there is no value."""
    total: Counter[str] = Counter()
    for run in scores.runs:
        total.update(run.counts)
    for number, what in (
        (total["failed"] + total["missing"], "nuggets without an assignment: they do not count"),
        (total["outside"], "citations outside of the references: they support nothing"),
        (total["undecided"], "answers without a verdict: they do not count"),
        (total["unrated"], "nuggets without importance: they count in A and A_strict only"),
        *((total[name], name) for name in sorted(total) if name.startswith("undecided: ")),
    ):
        if number:
            yield f"{number:,} {what}"
    pairs = [(run.run, query) for run in scores.runs for query in run.absent]
    if pairs:
        yield (
            f"absent, of queries that other runs answer or that nothing was retrieved for: "
            f"{len(pairs):,}; they do not count, as of {pairs[0][0]!r} to query {pairs[0][1]!r}"
        )
    reasons = names_by(
        (cut(reason, 200), f"{name} of {answer.run}")
        for answer in scores.answers
        for name in measures
        if (reason := answer.without.get(name)) is not None
    )
    common = sorted(reasons.items(), key=lambda each: -len(each[1]))
    for why, names in common[:_REASONS]:
        yield f"no value, {counted(len(names), 'time')}, as {names[0]}: {why}"
    if len(common) > _REASONS:
        yield f"and {len(common) - _REASONS:,} more reasons; --json has them all"
    whys = {run.means[name].reason for run in scores.runs for name in measures} - {None}
    yield from (f"no interval: {why}" for why in sorted(map(str, whys)))
