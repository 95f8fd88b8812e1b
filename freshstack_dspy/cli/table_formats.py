"""A table for other programs: CSV, LaTeX, Markdown."""

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from freshstack_dspy.cli.lines import one_line

Cell = str | int | float | None
FormatName = Literal["csv", "latex", "markdown"]

_STARTS_A_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DASH_BEFORE_DASH = re.compile("-(?=-)")
_IN_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
}
_IN_MARKDOWN = {letter: f"\\{letter}" for letter in "\\|*_`[]<&~"}


@dataclass(frozen=True)
class PlainTable:
    """A header and rows under it.

    Attributes:
        header: The names of the columns.
        rows: The cells of each row, as many as there are columns; None is an empty cell.
        caption: What is in it; CSV has no place for one.
        digits: How many decimals of a float LaTeX and Markdown show; CSV gives it in full.
        right: The places of columns of figures that are texts, as intervals: they are flush right
            as numbers are.

    Raises:
        ValueError: A row has more or fewer cells than there are columns.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    digits: int = 4
    right: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"{row!r} has {len(row)} cells for {len(self.header)} columns")


def as_csv(table: PlainTable) -> str:
    r"""Write a table as CSV (RFC 4180, lines end with \n), numbers in full.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, and a control
    character becomes a space.

    Source:
        OWASP, CSV Injection: cells that begin with = + - @, also after white space.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(name) for name in table.header])
    writer.writerows([_harmless(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def as_latex(table: PlainTable) -> str:
    r"""Write a table as a LaTeX `tabular` with the rules of the package booktabs.

    A comment names the package. With a caption it stands in a `table`. All text is escaped; columns of numbers are flush right.
    """
    columns = "".join("r" if _numeric(table, place) else "l" for place in range(len(table.header)))
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(table.header, table.digits),
        r"\midrule",
        *(_latex_row(row, table.digits) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if table.caption:
        caption = rf"\caption{{{_latex(table.caption, table.digits)}}}"
        package, *tabular = lines
        lines = [package, r"\begin{table}", r"\centering", caption, *tabular, r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_markdown(table: PlainTable) -> str:
    """Write a table as GitHub-flavoured Markdown, all text escaped."""
    rules = ["---:" if _numeric(table, place) else "---" for place in range(len(table.header))]
    lines = [
        _markdown_row(table.header, table.digits),
        f"| {' | '.join(rules)} |",
        *(_markdown_row(row, table.digits) for row in table.rows),
    ]
    if table.caption:
        lines = [_escaped(table.caption, _IN_MARKDOWN), "", *lines]
    return "\n".join(lines) + "\n"


FORMATS: Mapping[FormatName, Callable[[PlainTable], str]] = MappingProxyType(
    {"csv": as_csv, "latex": as_latex, "markdown": as_markdown}
)
"""The writer of each format."""


def _harmless(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = _CONTROL.sub(" ", cell)
    return f"'{text}" if text.lstrip().startswith(_STARTS_A_FORMULA) else text


def _numeric(table: PlainTable, place: int) -> bool:
    """Tell whether a column holds figures: numbers only, and at least one, or as the table says."""
    if place in table.right:
        return True
    cells = [row[place] for row in table.rows if row[place] is not None]
    return bool(cells) and not any(isinstance(cell, str) for cell in cells)


def _latex_row(cells: tuple[Cell, ...], digits: int) -> str:
    return " & ".join(_latex(cell, digits) for cell in cells) + r" \\"


def _latex(cell: Cell, digits: int) -> str:
    # A row that begins with a bracket would be read as an option of the rule above it.
    apart = _DASH_BEFORE_DASH.sub("-\0", _shown(cell, digits))  # -- would be one long dash
    escaped = _escaped(apart, _IN_LATEX).replace("\0", "{}")
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def _markdown_row(cells: tuple[Cell, ...], digits: int) -> str:
    shown = [_escaped(_shown(cell, digits), _IN_MARKDOWN) for cell in cells]
    return f"| {' | '.join(shown)} |"


def _escaped(text: str, meanings: Mapping[str, str]) -> str:
    return "".join(meanings.get(letter, letter) for letter in text)


def _shown(cell: Cell, digits: int) -> str:
    if cell is None:
        return "–"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else one_line(str(cell))
