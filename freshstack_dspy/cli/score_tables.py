"""What `freshstack score` prints: tables, JSON, CSV, and what is missing in them."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.table import Table

from freshstack_dspy.cli.fitted_tables import Column, show_fitted
from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.table_formats import Cell, PlainTable
from freshstack_dspy.cli.table_formats import as_csv as to_csv
from freshstack_dspy.cli.tables import show
from freshstack_dspy.errors import ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.measures.answers import RunScore, Scores
    from freshstack_dspy.measures.statistics import Estimate, Interval

By = Literal["run", "query", "answer"]
_WIDEST_NAME = 12
"""A longer name of a measure takes several lines."""
_MOST_REASONS, _LONGEST_REASON = 5, 200
_COUNTED: Mapping[str, tuple[tuple[str, ...], str, Mapping[str, str]]] = {
    "missing": (
        ("failed", "missing"),
        "nuggets without an assignment",
        {
            "leave_out": "they do not count",
            "zero": "they count as not supported",
            "no_value": "their answers have no value",
        },
    ),
    "outside": (
        ("outside",),
        "citations outside of the references",
        {
            "no_support": "they support nothing",
            "leave_out": "they count as those without a label",
            "uncited": "they count as if they were not there",
        },
    ),
    "undecided": (
        ("undecided",),
        "answers without a verdict",
        {"leave_out": "they do not count", "disagrees": "they do not agree"},
    ),
}
"""By choice: what it is about, and what each word of it means."""


class View(NamedTuple):
    """What of the scores is shown, and how.

    Attributes:
        measures: Those in the tables; JSON has all.
        counts: Which of what was counted is in the tables.
        by: What a row is.
        as_json: Everything as one JSON object.
        as_csv: The rows as CSV.
        run: What a run is called.
        answers: What its answers are called.
        counts_are_all: Whether the counts add up to the answers, which then need no column.
        last: The run that stands below all others.
    """

    measures: Sequence[str]
    counts: Sequence[str]
    by: By = "run"
    as_json: bool = False
    as_csv: bool = False
    run: str = "run"
    answers: str = "answers"
    counts_are_all: bool = False
    last: str | None = None


def print_scores(scores: "Scores", view: View, more: Mapping[str, Any] | None = None) -> None:
    """Print scores.

    Args:
        scores: All of them.
        view: What of them.
        more: What stands beside them in the JSON.

    Raises:
        ConfigError: Both formats are asked for.
    """
    if view.as_json and view.as_csv:
        raise ConfigError("--json and --csv are two formats; give one of them")
    if view.as_json:
        found = {**scores.model_dump(mode="json"), **_dumped(more or {})}
        print(json.dumps(found, indent=2))  # in ASCII: a name moves no cursor
    elif view.as_csv:
        print(to_csv(_rows(scores, view)), end="")
    else:
        if view.by == "run":
            _run_tables(scores, view)
        else:
            _plain(_rows(scores, view))
        _say_counted(scores, view)
        _say_without(scores, view)


def _dumped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _dumped(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_dumped(each) for each in value]
    return value.model_dump(mode="json")


def _rows(scores: "Scores", view: View) -> PlainTable:
    """Put the scores into rows of numbers."""
    measures, counts = view.measures, view.counts
    rows: list[tuple[Cell, ...]]
    if view.by == "run":
        ends = [f"{name}{end}" for name in measures for end in ("", "_low", "_high")]
        header = (view.run, view.answers, *ends, *counts, "absent")
        rows = [
            (
                run.run,
                run.answers,
                *(
                    end
                    for name in measures
                    for end in (run.means[name].value, run.means[name].low, run.means[name].high)
                ),
                *(run.counts.get(name, 0) for name in counts),
                len(run.absent),
            )
            for run in scores.runs
        ]
    elif view.by == "query":
        header = ("query_id", view.answers, *measures)
        rows = [
            (query.query_id, query.answers, *(query.means.get(name) for name in measures))
            for query in scores.queries
        ]
    else:
        header = (view.run, "query_id", *measures, *counts)
        rows = [
            (
                answer.run,
                answer.query_id,
                *(answer.values.get(name) for name in measures),
                *(answer.counts.get(name, 0) for name in counts),
            )
            for answer in scores.answers
        ]
    return PlainTable(header, tuple(rows))


def _plain(rows: PlainTable) -> None:
    table = Table()
    texts = sum(name in ("run", "annotator", "query_id") for name in rows.header)
    for place, name in enumerate(rows.header):
        table.add_column(name, justify="left" if place < texts else "right")
    for row in rows.rows:
        table.add_row(*(cell(each) for each in row))
    show(counted(len(rows.rows), "row"), table)


def _run_tables(scores: "Scores", view: View) -> None:
    measures = view.measures
    level = f"{scores.runs[0].means[measures[0]].level:.0%}".replace("%", " %")
    runs = sorted(scores.runs, key=lambda each: (each.run == view.last, each.run))
    key = Column(view.run, [each.run for each in runs], is_text=True)
    means, intervals = _mean_columns(runs, measures, f"{level} interval")
    numbers = {name: [each.counts.get(name, 0) for each in runs] for name in view.counts}
    counts = [
        Column(name, [f"{one:,}" for one in found])
        for name, found in {**numbers, "absent": [len(each.absent) for each in runs]}.items()
    ]
    if len(measures) == 1:
        means += intervals
    if not view.counts_are_all:
        means = [Column(view.answers, [f"{each.answers:,}" for each in runs]), *means]
    queries = counted(len(scores.queries), "query", "queries")
    show_fitted(
        f"{counted(len(runs), view.run)}, {queries}; each query the same weight",
        [key],
        means,
        counts,
    )
    if len(measures) > 1 and any(
        each.means[name].reason is None for each in runs for name in measures
    ):
        of_measures = [
            end._replace(header=mean)
            for end, mean in zip(intervals, map(_header, measures), strict=True)
        ]
        show_fitted(f"{level} intervals, over queries", [key], of_measures)


def _mean_columns(
    runs: "Sequence[RunScore]", measures: Sequence[str], interval: str
) -> tuple[list[Column], list[Column]]:
    return (
        [
            Column(_header(name), [cell(each.means[name].value) for each in runs])
            for name in measures
        ],
        [Column(interval, [ends(each.means[name]) for each in runs]) for name in measures],
    )


def _header(name: str) -> str:
    """A measure's name, which takes several lines where it is long."""
    return name.replace("_", " ") if len(name) > _WIDEST_NAME else name


def _say_counted(scores: "Scores", view: View) -> None:
    """Say what was missing, and what it counts by which choice."""
    total: dict[str, int] = {}
    for run in scores.runs:
        for name, number in run.counts.items():
            total[name] = total.get(name, 0) + number
    for choice, word in scores.choices.items():
        names, what, meanings = _COUNTED.get(choice, ((), "", {}))
        if number := sum(total[name] for name in names):
            say(f"{what}: {number:,}; {meanings[word]} (--{choice} {word})")
    for name in sorted(name for name in total if name.startswith("undecided: ")):
        say(f"{name}: {total[name]:,}")
    if total.get("unrated"):
        say(f"nuggets without importance: {total['unrated']:,}; they count in A and A_strict only")
    absent = [(run.run, query) for run in scores.runs for query in run.absent]
    if absent and view.run == "run":  # annotators need not read the same queries
        word = scores.choices["absent"]
        meaning = "they count 0" if word == "zero" else "they do not count"
        say(
            f"absent, of queries that other runs answer or that nothing was retrieved for: "
            f"{len(absent):,}; {meaning} (--absent {word}), as of {absent[0][0]!r} to query "
            f"{absent[0][1]!r}"
        )


def _say_without(scores: "Scores", view: View) -> None:
    """Say what has no value, and why; of many reasons those of most answers."""
    without: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for answer in scores.answers:
        for name in view.measures:
            if (reason := answer.without.get(name)) is not None:
                given = without.setdefault(reason, {}).setdefault(name, [])
                given.append((answer.run, answer.query_id))
    ordered = sorted(without.items(), key=lambda each: -max(map(len, each[1].values())))
    for reason, found in ordered[:_MOST_REASONS]:
        run, query = next(iter(found.values()))[0]
        say(
            f"no {', '.join(found)}: {max(map(len, found.values())):,}, as of {run!r} to query "
            f"{query!r}: {reason[:_LONGEST_REASON]}"
        )
    if len(ordered) > _MOST_REASONS:
        say(f"and {len(ordered) - _MOST_REASONS:,} more reasons; --json has them all")
    reasons: dict[str, tuple[str, str]] = {}
    for each in scores.runs:
        for name in view.measures:
            if (why := each.means[name].reason) is not None:
                reasons.setdefault(why, (each.run, name))
    for why, (run, name) in reasons.items():
        say(f"no interval, as for {name} of {run!r}: {why}")


def pooled_lines(pooled: "Mapping[str, Mapping[str, Estimate]]") -> None:
    """Print what all nuggets of an annotator come to, each nugget the same weight."""
    for annotator, figures in pooled.items():
        said = ", ".join(
            f"{name} {cell(each.value) if each.value is not None else f'– ({each.reason})'}"
            for name, each in figures.items()
        )
        say(f"{annotator}, each nugget the same weight: {said}")


def cell(value: Cell) -> str:
    """Write a cell; a dash where there is no value."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def ends(interval: "Interval") -> str:
    """Write the ends of an interval; a dash where it has none."""
    if interval.low is None or interval.high is None:
        return "–"
    return f"{interval.low:.3f}–{interval.high:.3f}"
