"""Tables that fit the screen: those that are too wide stand as several, one below the other."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table

from freshstack_dspy.cli.lines import one_line, width
from freshstack_dspy.cli.tables import show

_FRAME = 3
"""What a column takes beside its cells: a space on either side, and a line."""


class Column(NamedTuple):
    """A column of a table; its header takes several lines rather than more width."""

    header: str
    cells: Sequence[str]
    is_text: bool = False

    @property
    def width(self) -> int:
        """Of the widest cell, or word of the header."""
        return max(map(cell_len, (*map(one_line, self.cells), *self.header.split())))


def show_fitted(title: str, keys: Sequence[Column], *groups: Sequence[Column]) -> None:
    """Print columns in one table where it fits; else each group in its own, and in more if need be.

    Args:
        title: What is shown.
        keys: They stand first in each table, and say what a row is.
        groups: Which columns belong together.
    """
    room = width() - 1 - sum(column.width + _FRAME for column in keys)
    together = [column for group in groups for column in group]
    blocks = (
        [together]
        if _taken(together) <= room
        else [part for each in groups for part in _cut(each, room)]
    )
    for place, block in enumerate(blocks):
        table = Table()
        for column in (*keys, *block):
            table.add_column(
                column.header,
                justify="left" if column.is_text else "right",
                min_width=column.width,
                max_width=column.width,
            )
        for row in zip(*(column.cells for column in (*keys, *block)), strict=True):
            table.add_row(*row)
        show("" if place else title, table)


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + _FRAME for column in columns)


def _cut(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Cut columns into runs that fit; one that does not fit alone stands alone."""
    blocks: list[list[Column]] = []
    for column in columns:
        if blocks and _taken([*blocks[-1], column]) <= room:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return blocks
