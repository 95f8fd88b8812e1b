"""What `freshstack evaluate` gives to other programs: JSON, CSV, tables, values by query."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.cli.evaluated import BY_QUERY, Evaluated, Report
from freshstack_dspy.cli.group_labels import ALL, MACRO, group_label
from freshstack_dspy.cli.lines import counted, percent
from freshstack_dspy.cli.outputs import write_whole
from freshstack_dspy.cli.table_formats import Cell, PlainTable, as_csv

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Bounds, Evaluation
    from freshstack_dspy.measures.groups import GroupedEvaluation
    from freshstack_dspy.measures.statistics import Interval

_COLUMNS = (
    "file", "run", "by", "group", "average", "queries", "measure", "mean", "low", "high", "level",
    "k", "unjudged_at_k", "absent", "empty", "without_relevant", "lowest", "highest",
    "none_relevant", "all_relevant", "conventions", "undefined",
)  # fmt: skip


BY_QUERY_STARTS = ",".join(BY_QUERY[:3])
"""How the first line of a file of values by query begins."""
_DIGITS = 3


def report_json(report: Report) -> str:
    """Write everything as one JSON object."""
    found: dict[str, Any] = {
        **report.judgments.identity,
        "evaluations": list(map(_dumped, report.runs)),
    }
    if report.excluding is not None:
        found["without_contaminated"] = {
            "coverage": report.excluding.coverage,
            "left_out": report.excluding.left_out,
            "evaluations": list(map(_dumped, report.excluding.runs)),
        }
    return json.dumps(found, indent=2) + "\n"


def _dumped(run: Evaluated) -> dict[str, Any]:
    return {
        "file": run.name,
        **run.evaluation.model_dump(mode="json"),
        "intervals": {name: interval.model_dump() for name, interval in run.means.items()},
        "groups": [groups.model_dump(mode="json") for groups in run.groups],
    }


def report_csv(report: Report) -> str:
    """Write one row for each mean: of all queries, of each group, and of all groups."""
    rows: list[tuple[Cell, ...]] = []
    for run in report.runs:
        rows += _rows_of(run, "", "")
        for groups in run.groups:
            rows += _rows_of_groups(run, groups)
    if report.excluding is not None:
        for run in report.excluding.runs:
            rows += _rows_of(run, "without_contaminated", f"{report.excluding.coverage:g}")
    return as_csv(PlainTable(_COLUMNS, tuple(rows)))


def _rows_of(run: Evaluated, by: str, group: str) -> Iterator[tuple[Cell, ...]]:
    evaluation = run.evaluation
    head = (run.name, evaluation.run, by, group, "micro", len(evaluation.per_query))
    unjudged = {holes.k: holes.mean_unjudged for holes in evaluation.holes}
    missing = (evaluation.absent, evaluation.empty, evaluation.without_relevant)
    yield from _rows(run, head, run.means, unjudged, tuple(map(len, missing)), bounds=True)


def _rows_of_groups(run: Evaluated, groups: "GroupedEvaluation") -> Iterator[tuple[Cell, ...]]:
    for each in groups.groups:
        head = (run.name, groups.run, groups.by, each.group, "micro", each.queries)
        missing = (each.absent, each.empty, each.without_relevant)
        yield from _rows(run, head, each.means, each.unjudged, missing)
    grouped = len(run.evaluation.per_query) - len(groups.ungrouped)
    head = (run.name, groups.run, groups.by, "", "macro", grouped)
    yield from _rows(run, head, groups.macro, {}, (None, None, None))


def _rows(
    run: Evaluated,
    head: tuple[Cell, ...],
    means: "Mapping[str, Interval]",
    unjudged: Mapping[int, float | None],
    missing: tuple[Cell, ...],
    *,
    bounds: bool = False,
) -> Iterator[tuple[Cell, ...]]:
    from freshstack_dspy.measures.measure import parse_measure

    evaluation = run.evaluation
    known = {of.measure: _ends_of(of) for of in evaluation.bounds} if bounds else {}
    for measure, mean in means.items():
        k = parse_measure(measure).k
        holes = None if k is None else unjudged.get(k)
        values = (measure, mean.value, mean.low, mean.high, mean.level, k, holes)
        ends = known.get(measure, (None,) * 4)
        yield (*head, *values, *missing, *ends, evaluation.conventions, evaluation.undefined)


def _ends_of(of: "Bounds") -> tuple[Cell, ...]:
    return (of.mean_lowest, of.mean_highest, of.mean_none_relevant, of.mean_all_relevant)


def report_tables(report: Report) -> list[PlainTable]:
    """Make a table of the runs, and one for each grouping, with the intervals in brackets."""
    measures = report.runs[0].evaluation.measures
    level = percent(next(iter(report.runs[0].means.values())).level)
    intervals = f"{level} bootstrap intervals in brackets"
    header = ("run", *measures, *_unjudged_names(report.runs[0].evaluation))
    caption = f"{report.title}; {intervals}.{_missing(report.runs)}"
    tables = [_plain(header, [(run.name, *_cells(run, measures)) for run in report.runs], caption)]
    if report.excluding is not None:
        number = report.queries - len(report.excluding.left_out)
        caption = (
            f"{report.judgments.name}: the {counted(number, 'query', 'queries')} of which fewer "
            f"than {percent(report.excluding.coverage)} of the nuggets are known; {intervals}."
        )
        rows = [(run.name, *_cells(run, measures)) for run in report.excluding.runs]
        tables.append(_plain(header, rows, caption))
    for place, groups in enumerate(report.groupings):
        caption = f"{report.title}, by {group_label(groups.by)}; {intervals}."
        tables.append(_of_groups(report, place, measures, caption))
    return tables


def _plain(header: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], caption: str) -> PlainTable:
    names = {"run", header[1]} if "queries" in header else {"run"}
    right = frozenset(range(len(names), len(header)))
    return PlainTable(header, tuple(rows), caption=caption, digits=_DIGITS, right=right)


def _missing(runs: Sequence[Evaluated]) -> str:
    """Say what a table without columns for it would hide."""
    said = [
        f" {run.name}: {len(ids)} {what}."
        for run in runs
        for ids, what in (
            (run.evaluation.absent, "absent"),
            (run.evaluation.empty, "empty"),
            (run.evaluation.without_relevant, "without relevant"),
        )
        if ids
    ]
    return "".join(said)


def _of_groups(report: Report, place: int, measures: tuple[str, ...], caption: str) -> PlainTable:
    rows: list[tuple[Cell, ...]] = []
    for run in report.runs:
        of = run.groups[place]
        for each in of.groups:
            cells = (_cell(each.means[name]) for name in measures)
            rows.append((run.name, group_label(each.group), each.queries, *cells))
        macro = f"{MACRO} of {counted(len(of.groups) + of.unlisted, 'group')}"
        grouped = len(run.evaluation.per_query) - len(of.ungrouped)
        rows.append((run.name, macro, grouped, *(_cell(of.macro[name]) for name in measures)))
        means = (_cell(run.means[name]) for name in measures)
        rows.append((run.name, ALL, len(run.evaluation.per_query), *means))
    header = ("run", group_label(report.groupings[place].by), "queries", *measures)
    return _plain(header, rows, caption)


def _cells(run: Evaluated, measures: tuple[str, ...]) -> tuple[Cell, ...]:
    unjudged = (holes.mean_unjudged for holes in run.evaluation.holes)
    return (*(_cell(run.means[name]) for name in measures), *unjudged)


def _cell(mean: "Interval") -> str:
    if mean.value is None:
        return "–"
    if mean.low is None or mean.high is None:
        return f"{mean.value:.{_DIGITS}f}"
    return f"{mean.value:.{_DIGITS}f} [{mean.low:.{_DIGITS}f}, {mean.high:.{_DIGITS}f}]"


def _unjudged_names(evaluation: "Evaluation") -> tuple[str, ...]:
    return tuple(f"unjudged@{holes.k}" for holes in evaluation.holes)


def write_per_query(report: Report, path: Path) -> int:
    """Write one row for each run, query and measure as CSV, with the query's groups; count them.

    A measure without a value has an empty cell. Several groups of a query stand in one cell,
    separated by `; `.

    Raises:
        ConfigError: The file cannot be written.
    """
    groups_of = [groups.by_query() for groups in report.groupings]
    header = (*BY_QUERY[:3], *(groups.by for groups in report.groupings), *BY_QUERY[3:])
    rows: list[tuple[Cell, ...]] = []
    for run in report.runs:
        for query_id, values in run.evaluation.per_query.items():
            own = ("; ".join(groups.get(query_id, ())) for groups in groups_of)
            head = (run.name, run.evaluation.run, query_id, *own)
            rows += [(*head, name, values.get(name)) for name in run.evaluation.measures]
    text = as_csv(PlainTable(header, tuple(rows)))
    write_whole(path, text)
    return len(rows)
