"""A page as data: JSON, CSV, and LaTeX for a paper."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from freshstack_dspy.pages.page import Cell, Page, Span, Table, Value, one_line

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a text that begins so for a formula."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **dict(zip("{}$&#_%", ("\\{", "\\}", "\\$", "\\&", "\\#", "\\_", "\\%"), strict=True)),
}


def page_json(page: Page) -> str:
    """Write the data of a page: records, named tuples and dataclasses become objects."""
    return json.dumps(_plain(page.data), ensure_ascii=False, indent=2) + "\n"


def _plain(given: Any) -> Any:
    fields: Any = getattr(given, "_asdict", dict)() if isinstance(given, tuple) else {}
    if fields:
        return {name: _plain(one) for name, one in fields.items()}
    if isinstance(given, dict):
        return {str(name): _plain(one) for name, one in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(one) for one in given]
    return to_jsonable_python(given)


def page_csv(page: Page) -> str:
    """Write the rows of a page, or its first table; numbers with all digits."""
    table = page.rows or next(page.tables(), Table((), ()))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows([_value(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def _value(cell: Cell) -> str | int | float | None:
    if isinstance(cell, tuple):
        return " ".join(str(_value(one)) for one in cell)
    if isinstance(cell, Value):
        return cell.value
    if isinstance(cell, Span):
        cell = cell.text
    if not isinstance(cell, str):
        return cell
    line = one_line(cell)
    return f" {line}" if line.startswith(FORMULA) else line


def page_latex(page: Page) -> str:
    """Write the tables of a page for a paper, with booktabs' rules."""
    return "\n".join(map(_latex_table, page.tables()))


def _latex_table(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = ("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
        return " & ".join(escaped) + r" \\"

    columns = "".join("r" if right else "l" for right in table.flush_right())
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line(table.header),
        r"\midrule",
        *(line([" ".join(lines) for lines in row]) for row in table.texts()),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])
