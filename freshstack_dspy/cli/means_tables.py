"""Tables of means with their intervals, on a screen of 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.lines import one_line, percent, say, say_wrapped, width
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.measures.statistics import Interval

_SCREEN = 80
_LABEL = 12
"""How few characters of a label may stand in a line."""
_INDENT = "  "
_NOTHING = "–"


class MeansRow(NamedTuple):
    """The means of one run on some queries."""

    label: str
    note: str
    """What stands under the label, as the number of queries; empty: nothing."""
    means: "Mapping[str, Interval]"
    """By measure."""
    unjudged: Mapping[int, float | None]
    """By cut-off; one that is not there is not shown."""


class MeansSection(NamedTuple):
    """Rows under a heading; an empty heading is none."""

    heading: str
    rows: Sequence[MeansRow]


def show_means(
    title: str, labels: str, measures: Sequence[str], sections: Sequence[MeansSection]
) -> None:
    """Print a table: a column for each measure, or, where these do not fit, a row.

    Args:
        title: The line above it.
        labels: What the labels are, as `run`.
        measures: Their names.
        sections: The rows; a line is drawn between sections.
    """
    screen = max(_SCREEN, width())
    table = _by_column(labels, measures, sections, screen)
    if table is None:
        table = _by_row(labels, measures, sections, screen)
    show(title, table)
    intervals = [row.means[name] for each in sections for row in each.rows for name in measures]
    if any(interval.low is not None for interval in intervals):
        level = intervals[0].level
        say(f"with each mean: the {percent(level)} bootstrap interval over queries")
    for reason in sorted({interval.reason for interval in intervals if interval.reason}):
        say_wrapped(f"no interval ({_NOTHING}): {reason}")


def _by_column(
    labels: str, measures: Sequence[str], sections: Sequence[MeansSection], screen: int
) -> Table | None:
    """Make a table with a column for each measure; None where it is too wide for the screen."""
    cutoffs = _cutoffs(measures)

    def made(longest: int) -> Table:
        table = Table()
        table.add_column(labels)
        for name in measures:
            table.add_column(Text(name), justify="right")
        for section in sections:
            if section.heading:
                table.add_row(_lines(*folded(section.heading, longest)))
            indent = _INDENT if section.heading else ""
            for place, row in enumerate(section.rows, start=1):
                cells = [_value(row, name, cutoffs[name]) for name in measures]
                label = _label(row, longest, indent)
                table.add_row(_lines(*label), *cells, end_section=place == len(section.rows))
        return table

    left = screen - _width(made(1)) + max(1, len(labels))
    return made(left) if left >= max(_LABEL, len(labels)) else None


def _cutoffs(measures: Sequence[str]) -> dict[str, int | None]:
    from freshstack_dspy.measures.measure import parse_measure

    return {name: parse_measure(name).k for name in measures}


def _by_row(
    labels: str, measures: Sequence[str], sections: Sequence[MeansSection], screen: int
) -> Table:
    """Make a table with a row for each measure."""
    cutoffs = _cutoffs(measures)

    def made(longest: int) -> Table:
        table = Table()
        for column in (labels, "measure"):
            table.add_column(column)
        for column in ("mean", "interval", "unjudged@k"):
            table.add_column(column, justify="right")
        for section in sections:
            if section.heading:
                table.add_row(_lines(*folded(section.heading, longest)))
            indent = _INDENT if section.heading else ""
            for row in section.rows:
                label = _label(row, longest, indent)
                for place, name in enumerate(measures):
                    k = cutoffs[name]
                    last = place == len(measures) - 1
                    table.add_row(
                        _lines(*(label[place:] if last else label[place : place + 1])),
                        _lines(name),
                        _lines(_mean(row.means[name])),
                        _lines(_ends(row.means[name])),
                        _lines(_NOTHING if k is None else _share(row.unjudged.get(k))),
                        end_section=last,
                    )
        return table

    left = screen - _width(made(1)) + max(1, len(labels))
    return made(max(left, _LABEL, len(labels)))


def _label(row: MeansRow, longest: int, indent: str) -> list[str]:
    room = longest - len(indent)
    return [indent + line for line in (*folded(row.label, room), *folded(row.note, room))]


def _width(table: Table) -> int:
    console = Console(width=10_000)
    return Measurement.get(console, console.options, table).maximum


def folded(text: str, longest: int) -> list[str]:
    """Fold a name into lines, in each of which nothing moves the cursor; a blank one into none."""
    return textwrap.wrap(
        one_line(text), max(1, longest), break_long_words=True, break_on_hyphens=False
    )


def _lines(*lines: str) -> Text:
    """Make a cell of several lines, in each of which nothing moves the cursor."""
    return Text("\n".join(map(one_line, lines)))


def _value(row: MeansRow, name: str, k: int | None) -> Text:
    """Make a cell of the mean, its interval, and what of the top of this measure is unjudged."""
    lines = [_mean(row.means[name]), _ends(row.means[name])]
    if k is not None and k in row.unjudged:
        lines.append(f"unjudged {_share(row.unjudged[k])}")
    return _lines(*lines)


def _mean(interval: "Interval") -> str:
    return _NOTHING if interval.value is None else f"{interval.value:.4f}"


def _ends(interval: "Interval") -> str:
    if interval.low is None or interval.high is None:
        return _NOTHING
    return f"{interval.low:.3f}–{interval.high:.3f}"


def _share(share: float | None) -> str:
    return _NOTHING if share is None else f"{share:.3f}"
