"""A page on a terminal: lines wrapped and tables fitted to its width, nothing that moves the cursor."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

from freshstack_dspy.pages.page import Page, Picture, Span, Table, Text, one_line, shortened

_LEAST_ID = 16
_LEAST_KEY = 12
_MARKS = ("⟦", "⟧")
_SPACE = "\ufffc"  # within what is typed, which no line break parts


def width() -> int:
    """How many characters a line of the screen takes; 80 where there is none."""
    return max(40, shutil.get_terminal_size().columns)


def page_text(page: Page, columns: int | None = None) -> str:
    """Write a page for a terminal of `columns` columns, by default its own.

    Where there is too little room, names of columns have several lines and ids are shortened; a
    table that is still wider is shown in several parts, one below the other.
    """
    return "".join(f"{line}\n" for line in _page(page, columns or width()))


def wrapped(
    text: str, columns: int, indent: int = 0, hang: int = 2, *, within_words: bool = False
) -> list[str]:
    """Wrap a line; those after the first hang."""
    lines = textwrap.wrap(
        one_line(text),
        columns,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=within_words,
        break_on_hyphens=False,
    )
    return [line.replace(_SPACE, " ") for line in lines]


def _page(page: Page, columns: int) -> Iterator[str]:
    yield from wrapped(page.title, columns)
    before: object = None
    for each in page.parts:
        titled = isinstance(each, Page) or (isinstance(each, Table) and each.title)
        if before is not None and titled:
            yield ""
        if isinstance(each, Page):
            yield from _page(each, columns)
        elif isinstance(each, Text):
            yield from _text(each, columns)
        else:
            table = each.table if isinstance(each, Picture) else each
            yield from wrapped(table.title, columns)
            yield from _table(table, columns)
        before = each


def _text(text: Text, columns: int) -> Iterator[str]:
    shown = "".join(map(_span, text))
    if text.kind == "excerpt":
        margin = " " * (2 * text.indent + 2) + "| "
        for line in shown.splitlines():
            whole = one_line(line.rstrip().expandtabs(4)).replace(_SPACE, " ")
            further = " " * (len(whole) - len(whole.lstrip()))
            room = max(columns - len(margin), len(further) + _LEAST_ID)
            for piece in textwrap.wrap(whole, room, subsequent_indent=further) or [""]:
                yield f"{margin}{piece}".rstrip()
    elif text.kind == "code":
        for line in shown.splitlines():
            yield f"    {one_line(line)}".rstrip()
    else:
        yield from wrapped(shown, columns, 2 * text.indent + 2 * (text.kind == "item"))


def _span(span: Span) -> str:
    if span.style == "mark":
        return span.text.join(_MARKS)
    return one_line(span.text).replace(" ", _SPACE) if span.style == "code" else span.text


def _table(table: Table, columns: int) -> Iterator[str]:
    header, texts, frame = _fitted(table, columns)
    widths = _widths(header, texts, frame)
    right = table.flush_right()
    for part in _parts(widths, table.keys, columns):
        yield from _drawn(
            [header[column] for column in part],
            [[row[column] for column in part] for row in texts],
            [right[column] for column in part],
            sum(widths[column] for column in part) + 1,
            frame - 2,
        )


def _parts(widths: Sequence[int], keys: int, columns: int) -> list[list[int]]:
    """The columns of each part: as few parts as have room, with about as many columns each."""
    leading, others = list(range(keys)), list(range(keys, len(widths)))
    parts = [leading + others]
    for number in range(1, len(others) + 1):
        size = -(-len(others) // number)
        starts = range(0, len(others), size)
        parts = [leading + others[start : start + size] for start in starts]
        if all(sum(widths[one] for one in part) < columns for part in parts):
            break
    return parts


def _fitted(table: Table, columns: int) -> tuple[list[str], list[list[list[str]]], int]:
    """Give the header, the lines of the cells and the width of a frame, made narrower at need."""
    texts = table.texts()
    header = ["\n".join(map(one_line, name.split("\n"))) for name in table.header]
    frame = 3  # a line and a space on both sides; where there is little room, on one

    def spare() -> int:
        return columns - 1 - sum(_widths(header, texts, frame))

    if spare() < 0:
        header = [name.replace(" ", "\n") for name in header]
    if spare() < 0:
        frame = 2
    for column in sorted({*range(table.keys)} - {*table.ids}) if spare() < 0 else ():
        most = max(_LEAST_KEY, _widths(header, texts, frame)[column] - frame + spare())
        for row in texts:
            row[column] = [
                part
                for line in row[column]
                for part in wrapped(line, most, hang=0, within_words=True)
            ]
    # What reads a pipe wants whole ids. Where the table has several parts all the same, they have
    # more room.
    ids = table.ids if sys.stdout.isatty() or "COLUMNS" in os.environ else ()
    widest = _widths(header, texts, frame)
    saved = sum(max(0, widest[column] - frame - _LEAST_ID) for column in ids)
    least = _LEAST_ID if saved + spare() >= 0 else columns // 3
    for column in ids:
        most = max(least, _widths(header, texts, frame)[column] - frame + spare())
        for row in texts:
            row[column] = [shortened(line, most) for line in row[column]]
    return header, texts, frame


def _widths(
    header: Sequence[str], texts: Sequence[Sequence[Sequence[str]]], frame: int
) -> list[int]:
    from rich.cells import cell_len

    return [
        frame + max(cell_len(line) for lines in column for line in lines)
        for column in zip((name.split("\n") for name in header), *texts, strict=True)
    ]


def _drawn(
    header: Sequence[str],
    rows: Sequence[Sequence[list[str]]],
    right: Sequence[bool],
    columns: int,
    left: int,
) -> Iterator[str]:
    from rich.console import Console
    from rich.table import Table as RichTable

    shown: RichTable = RichTable(padding=(0, 1, 0, left))
    for name, flush_right in zip(header, right, strict=True):
        justify: Literal["left", "right"] = "right" if flush_right else "left"
        shown.add_column(name, justify=justify, no_wrap=True)
    for row in rows:
        shown.add_row(*("\n".join(lines) for lines in row))
    console = Console(highlight=False, markup=False, emoji=False, width=max(columns, 40))
    with console.capture() as captured:
        console.print(shown)
    yield from captured.get().splitlines()
