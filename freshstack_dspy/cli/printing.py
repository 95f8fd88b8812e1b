"""What commands print: lines, tables for a screen or to paste, and JSON.

Texts of others (names of runs, questions, files) are shown on one line, without control
characters, so that nothing in them moves the cursor.
"""

import csv
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection

Cell = str | int | float | None
TableFormat = Literal["markdown", "latex", "csv"]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
}
_LEAST_ID = 24


# Lines


def say(text: str) -> None:
    """Print one line."""
    print(one_line(text))


def say_wrapped(text: str, indent: int = 0) -> None:
    """Print a long text in as many lines as the screen takes; those after the first hang."""
    lines = textwrap.wrap(
        one_line(text),
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        print(line)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(one_line(text), file=sys.stderr)


def one_line(text: str) -> str:
    """Put a space for every line break and control character."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def counted(number: int, one: str, several: str = "") -> str:
    """Write a number with its noun: `1 pair`, `1,200 pairs`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def cut(text: str, longest: int = 80) -> str:
    """Cut a text to a length, and put … where something is missing."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def width() -> int:
    """How many characters a line of the screen takes; 80 where there is none."""
    return max(40, shutil.get_terminal_size().columns)


def labels_by(collection: "Collection") -> str:
    """Say in one line who made the labels of a collection, for the end of a table of metrics."""
    from freshstack_dspy.stored.manifest import is_baseline, makers

    trust = collection.manifest.trust
    measured = f"; {trust.line}" if trust else ""

    found = makers(collection.manifest)
    if not found:
        return f"labels as they were imported{measured}"
    named = (f"{model}, a word counter" if is_baseline(model) else model for model in found)
    return f"labels by {' and '.join(named)}{measured}"


# Tables and JSON


@dataclass(frozen=True)
class Table:
    """A header and rows of cells.

    Attributes:
        header: The names of the columns.
        rows: As many cells as columns; None is shown as –; a text may have several lines.
        title: What is in it.
        digits: How many decimals of a float are shown; CSV gives them in full.
        keys: How many leading columns say what a row is: they are flush left, and repeated
            where a wide table is shown in several parts.
        ids: Columns whose texts are shortened in the middle where the screen is too narrow.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    digits: int = 4
    keys: int = 1
    ids: Sequence[int] = ()

    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[_shown(cell, self.digits) for cell in row] for row in self.rows]

    def flush_right(self) -> list[bool]:
        """Of each column, whether it holds numbers, or texts that begin as numbers do."""
        texts = self.texts()
        return [
            column >= self.keys
            and all(not row[column] or row[column][0] in "0123456789+-−–.$±<" for row in texts)
            for column in range(len(self.header))
        ]


def show(table: Table, form: TableFormat | None = None) -> None:
    """Print a table: for the screen, or in a format to paste elsewhere.

    Where the screen is too narrow, names of columns have several lines and ids are shortened; a
    table that is still wider is shown in several parts, one below the other.
    """
    if form is not None:
        print(_WRITERS[form](table), end="")
        return
    if table.title:
        say(table.title)
    _print_for_screen(table)


def show_json(value: Any) -> None:
    """Print a value as JSON: models, named tuples and dataclasses become objects."""
    from pydantic_core import to_jsonable_python

    def plain(given: Any) -> Any:
        fields: Any = getattr(given, "_asdict", dict)() if isinstance(given, tuple) else {}
        if fields:
            return {name: plain(one) for name, one in fields.items()}
        if isinstance(given, dict):
            return {str(name): plain(one) for name, one in given.items()}
        if isinstance(given, list | tuple):
            return [plain(one) for one in given]
        return to_jsonable_python(given)

    print(json.dumps(plain(value), ensure_ascii=False, indent=2))


def _shown(cell: Cell, digits: int) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else "\n".join(map(one_line, cell.split("\n")))


def _print_for_screen(table: Table) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as RichTable

    texts, right, header = table.texts(), table.flush_right(), list(table.header)

    def widest() -> list[int]:
        return [
            3 + max(cell_len(line) for text in column for line in text.split("\n"))
            for column in zip(header, *texts, strict=True)
        ]

    if sum(widths := widest()) >= width():
        header = [name.replace(" ", "\n") for name in header]
        widths = widest()
    # What reads a pipe wants whole ids.
    for column in table.ids if sys.stdout.isatty() or "COLUMNS" in os.environ else ():
        most = max(_LEAST_ID, widths[column] - 3 - (sum(widths) + 1 - width()))
        for row in texts:
            row[column] = _shortened(row[column], most)
        widths = widest()
    keys = list(range(table.keys))
    parts = [keys[:]]
    for column in range(table.keys, len(header)):
        if parts[-1] != keys and sum(widths[one] for one in (*parts[-1], column)) >= width():
            parts.append(keys[:])
        parts[-1].append(column)
    for part in parts:
        shown: RichTable = RichTable()
        for column in part:
            justify: Literal["left", "right"] = "right" if right[column] else "left"
            shown.add_column(header[column], justify=justify, no_wrap=True)
        for row in texts:
            shown.add_row(*(row[column] for column in part))
        console = Console(highlight=False, markup=False, emoji=False)
        # rich would cut what does not fit
        console.width = max(console.width, sum(widths[column] for column in part) + 1)
        console.print(shown)


def _shortened(text: str, longest: int) -> str:
    """An id with … in its middle where it is longer; its end, which tells it apart, is kept."""
    if len(text) <= longest:
        return text
    start = (longest - 1) // 2
    return f"{text[:start]}…{text[start + 1 - longest :]}"


def _pasted_rows(table: Table) -> list[list[str]]:
    return [[text.replace("\n", " ") for text in row] for row in table.texts()]


def _markdown(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    rules = ["---:" if right else "---" for right in table.flush_right()]
    lines = [line(table.header), f"| {' | '.join(rules)} |", *map(line, _pasted_rows(table))]
    return "\n".join([*([table.title, ""] if table.title else []), *lines, ""])


def _latex(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        escaped = ("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
        return " & ".join(escaped) + r" \\"

    columns = "".join("r" if right else "l" for right in table.flush_right())
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line(table.header),
        r"\midrule",
        *map(line, _pasted_rows(table)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    for row in table.rows:
        writer.writerow([one_line(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


_WRITERS = {"markdown": _markdown, "latex": _latex, "csv": _csv}
