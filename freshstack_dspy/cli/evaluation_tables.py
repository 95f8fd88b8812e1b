"""What `freshstack evaluate` prints for people."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.evaluated import Evaluated, Report
from freshstack_dspy.cli.evaluation_lines import FEW_QUERIES, say_conventions, say_missing
from freshstack_dspy.cli.group_labels import ALL, MACRO, group_label
from freshstack_dspy.cli.lines import counted, cut, percent, say_wrapped
from freshstack_dspy.cli.means_tables import MeansRow, MeansSection, folded, show_means
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.measures.groups import GroupedEvaluation, GroupMeans

_RUN = 16
"""How many characters of a run's name stand in a line of the bounds."""
_BY = 24
"""How much of the name of a grouping is shown."""
_NAMED = 3
"""How many of several groups are named in a line."""


def print_report(report: Report) -> None:
    """Print one row for each run, then the groups, and once more without the contaminated."""
    measures = report.runs[0].evaluation.measures
    rows = [MeansRow(run.name, "", run.means, _unjudged(run)) for run in report.runs]
    show_means(report.title, "run", measures, [MeansSection("", rows)])
    if report.judgments.left_out:
        say_wrapped(f"measured on {report.judgments.left_out}")
    if report.queries < FEW_QUERIES:
        said = counted(report.queries, "query is", "queries are")
        say_wrapped(f"{said} few: the intervals of fewer than {FEW_QUERIES} are too narrow")
    say_conventions(report.runs[0].evaluation)
    for run in report.runs:
        say_missing(run.name, run.evaluation)
    if any(run.evaluation.bounds for run in report.runs):
        _print_bounds(report)
    for place in range(len(report.groupings)):
        _print_groups(report, place)
    if report.excluding is not None:
        others = report.excluding
        left = report.queries - len(others.left_out)
        rows = [MeansRow(run.name, "", run.means, _unjudged(run)) for run in others.runs]
        title = (
            f"without the {len(others.left_out)} of which {percent(others.coverage)} of the "
            f"nuggets or more are known: {_queries(left)}"
        )
        show_means(title, "run", measures, [MeansSection("", rows)])


def _print_bounds(report: Report) -> None:
    """Print what the means would be if the holes were judged."""
    table = Table()
    for column in ("run", "measure"):
        table.add_column(column)
    for column in ("mean", "lowest", "highest", "none rel.", "all rel."):
        table.add_column(column, justify="right")
    for run in report.runs:
        lines = [*folded(run.name, _RUN), *[""] * len(run.evaluation.bounds)]
        for place, of in enumerate(run.evaluation.bounds):
            last = place == len(run.evaluation.bounds) - 1
            figures = (of.mean_lowest, of.mean_highest, of.mean_none_relevant, of.mean_all_relevant)
            cells = (run.evaluation.means[of.measure], *figures)
            table.add_row(
                Text("\n".join(lines[place:] if last else lines[place : place + 1]).rstrip()),
                of.measure,
                *("–" if cell is None else f"{cell:.4f}" for cell in cells),
                end_section=last,
            )
    print()
    show("if the unjudged chunks of the top k were judged:", table)
    say_wrapped(
        "lowest, highest: over all ways to judge them relevant to every nugget or to none; "
        "none rel., all rel.: none of them relevant, all of them"
    )


def _print_groups(report: Report, place: int) -> None:
    first = report.runs[0].groups[place]
    measures = report.runs[0].evaluation.measures
    print()
    by = cut(first.by, _BY)
    say_wrapped(f"by {by}: {first.rule}")
    several = len(report.runs) > 1
    sections = _by_group(report, place) if several else _alone(report.runs[0], place)
    labels = f"{by}, run" if several else by
    show_means(f"{report.judgments.name}: {_groups(first)}", labels, measures, sections)
    for line in (*([] if report.queries < FEW_QUERIES else _few(first)), *_remarks(first)):
        say_wrapped(line)


def _alone(run: Evaluated, place: int) -> list[MeansSection]:
    """Give the rows of the groups, the macro-average and all queries, of the only run."""
    of = run.groups[place]
    rows = [
        MeansRow(group_label(each.group), _note(each), each.means, each.unjudged)
        for each in of.groups
    ]
    averages = [
        MeansRow(MACRO, _groups(of), of.macro, {}),
        MeansRow(ALL, _queries(len(run.evaluation.per_query)), run.means, _unjudged(run)),
    ]
    return [MeansSection("", rows), MeansSection("", averages)]


def _by_group(report: Report, place: int) -> list[MeansSection]:
    """Give a section for each group, the macro-average and all queries, with a row for each run."""
    first = report.runs[0].groups[place]
    sections = []
    for number, group in enumerate(first.groups):
        rows = []
        for run in report.runs:
            own = run.groups[place].groups[number]
            rows.append(MeansRow(run.name, _missing(own), own.means, own.unjudged))
        sections.append(
            MeansSection(f"{group_label(group.group)}: {_queries(group.queries)}", rows)
        )
    macro = [MeansRow(run.name, "", run.groups[place].macro, {}) for run in report.runs]
    every = [MeansRow(run.name, "", run.means, _unjudged(run)) for run in report.runs]
    sections.append(MeansSection(f"{MACRO} of {_groups(first)}", macro))
    sections.append(MeansSection(f"{ALL}: {_queries(report.queries)}", every))
    return sections


def _few(of: "GroupedEvaluation") -> list[str]:
    few = counted(sum(each.queries < FEW_QUERIES for each in of.groups), "group")
    said = f"{few} of fewer than {FEW_QUERIES} queries: the intervals of so few are too narrow"
    return [said] if any(each.queries < FEW_QUERIES for each in of.groups) else []


def _remarks(of: "GroupedEvaluation") -> list[str]:
    """Say what the table of groups does not show."""
    lines = []
    if of.unlisted:
        total = len(of.groups) + of.unlisted
        said = f"the {len(of.groups)} largest are listed" if of.groups else "each of one query"
        lines.append(f"{_groups(of)}: {said}; --top {total} lists all")
    if of.several:
        lines.append(f"{_queries(of.several)} in several groups, counted in each")
    if of.ungrouped:
        lines.append(
            f"{_queries(len(of.ungrouped))} in no group, and not in the macro-average, as "
            f"{cut(of.ungrouped[0])}"
        )
    if of.without_queries:
        named = ", ".join(cut(group) for group in of.without_queries[:_NAMED])
        more = " …" if len(of.without_queries) > _NAMED else ""
        lines.append(
            f"{counted(len(of.without_queries), 'group')} without an evaluated query: {named}{more}"
        )
    total = len(of.groups) + of.unlisted
    for measure, number in of.macro_groups.items():
        if number < total:
            lines.append(f"{measure} has a value in {number} of {total} groups")
    return lines


def _groups(of: "GroupedEvaluation") -> str:
    return counted(len(of.groups) + of.unlisted, "group")


def _note(of: "GroupMeans") -> str:
    missing = _missing(of)
    return _queries(of.queries) + (f", {missing}" if missing else "")


def _missing(of: "GroupMeans") -> str:
    numbers = {
        "absent": of.absent,
        "empty": of.empty,
        "without relevant": of.without_relevant,
    }
    return ", ".join(f"{number:,} {said}" for said, number in numbers.items() if number)


def _unjudged(run: Evaluated) -> dict[int, float | None]:
    return {holes.k: holes.mean_unjudged for holes in run.evaluation.holes}


def _queries(number: int) -> str:
    return counted(number, "query", "queries")
