"""A page: the title, the data and the parts of what is shown of a result.

A result (an evaluation, a comparison, a diagnosis …) has a method `page()`. How a page looks on a
terminal, in Markdown, in HTML, as JSON or as CSV is said in this room once, and nowhere else.
Texts of others (questions, chunks, names of runs) stand in pages as they are: each writer makes
them harmless.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar, Union

Record = TypeVar("Record")

_NUMBER = re.compile(r"[-+−–±<$]?([\d.,]+%?)?( \([\d.,]+%\)| of [\d,]+|(/[\d,]+)+)?|\[.+, .+\]")
"""A number, its share, a part of a whole, counts with strokes, an interval; or nothing."""


@dataclass(frozen=True)
class Span:
    """A piece of a line that looks different.

    Attributes:
        text: The piece.
        style: `code` of what is typed or an id, `strong`, or `mark` of words that are evidence.
        href: Where it leads to: `#` and the anchor of a section, or a web address.
    """

    text: str
    style: Literal["plain", "code", "strong", "mark"] = "plain"
    href: str = ""


@dataclass(frozen=True)
class Value:
    """A number and its interval, as a cell or within a line.

    Attributes:
        value: The number; None is shown as –.
        low: The lower end of its interval; None where there is none.
        high: The upper end.
        form: How the number is written, in Python's format language.
        ends: How the ends are written.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    form: str = ".4f"
    ends: str = ".3f"

    def __str__(self) -> str:
        return self.number if self.low is None else f"{self.number} {self.interval}"

    @property
    def number(self) -> str:
        """The number alone."""
        return "–" if self.value is None else format(self.value, self.form)

    @property
    def interval(self) -> str:
        """The interval alone; – where there is none."""
        if self.low is None or self.high is None:
            return "–"
        return f"[{self.low:{self.ends}}, {self.high:{self.ends}}]"


def interval(of: Any, form: str = ".4f", ends: str = ".3f") -> Value:
    """Give what has `value`, `low` and `high`, as an `Interval`, as a cell; nothing of None."""
    return Value(None) if of is None else Value(of.value, of.low, of.high, form, ends)


def percent(share: float | None) -> Value:
    """Give a share as a percentage."""
    return Value(share, form=".1%")


def money(amount: float | None) -> str:
    """Write US dollars: `$1.50`, below 1 as `$0.0150`."""
    if amount is None:
        return "–"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def part(number: int, of: int) -> str:
    """Write a number and its share of a whole: `12 (3.4%)`."""
    return f"{number:,} ({number / of:.1%})" if of else f"{number:,}"


def p_value(p: float | None) -> str:
    """Write a p-value; below 0.0001 as just that."""
    return "<0.0001" if p is not None and p < 0.0001 else Value(p).number


def counted(number: int, one: str, several: str = "") -> str:
    """Write a number with its noun: `1 pair`, `1,200 pairs`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def names_by(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Collect names by what is said of them, in the order of their first: reasons, say."""
    names: dict[str, list[str]] = {}
    for said, name in pairs:
        names.setdefault(said, []).append(name)
    return names


Cell: TypeAlias = str | int | float | Value | Span | tuple[str | Value | Span, ...] | None
"""A cell of a table. None is shown as –; the members of a tuple stand below each other where there is
room, and next to each other where there is not; so do the lines of a text, and a value and its
interval."""


@dataclass(frozen=True)
class Text:
    """A paragraph, an entry of a list, or words of a document.

    Attributes:
        spans: A text, or its pieces.
        kind: `plain`; `note` of what one may skip; `warning` of what one must not; `item` of a
            list; `decision` of what a page leads to; `excerpt` of words from a document and `code` to
            be typed, whose lines are kept.
        indent: How deep an entry is in its list.
    """

    spans: str | Span | tuple[str | Span | Value, ...]
    kind: Literal["plain", "note", "warning", "item", "decision", "excerpt", "code"] = "plain"
    indent: int = 0

    def __iter__(self) -> Iterator[Span]:
        given = self.spans if isinstance(self.spans, tuple) else (self.spans,)
        return (one if isinstance(one, Span) else Span(str(one)) for one in given)

    def __str__(self) -> str:
        return "".join(span.text for span in self)


def notes(*lines: str) -> tuple[Text, ...]:
    """Give lines that one may skip; empty ones are left out."""
    return tuple(Text(line, "note") for line in lines if line)


def items(lines: Sequence[str], limit: int | None = None) -> Iterator[Text]:
    """Give at most `limit` entries of a list, and say how many more there are; nothing for 0."""
    for line in lines[:limit]:
        yield Text(line, "item")
    if limit and limit < len(lines):
        yield Text(f"… and {len(lines) - limit:,} more", "item")


def prose(line: str, kind: Literal["plain", "note", "item"] = "plain") -> Text:
    """Give a line of ours, in which code stands between backticks."""
    pieces = line.split("`")
    return Text(
        tuple(Span(one, "code" if at % 2 else "plain") for at, one in enumerate(pieces)), kind
    )


@dataclass(frozen=True)
class Table:
    """A header and rows of cells.

    Attributes:
        header: The names of the columns.
        rows: As many cells as columns.
        title: What is in it.
        digits: How many decimals of a float are shown; CSV gives them in full.
        keys: How many leading columns say what a row is: they are flush left, and repeated
            where a wide table is shown in several parts.
        ids: Columns whose texts are shortened in the middle where there is no room.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    digits: int = 4
    keys: int = 1
    ids: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        columns: Mapping[str, str | Callable[[Record], Cell]],
        title: str = "",
        **layout: Any,
    ) -> "Table":
        """Make a table with a row for each record.

        Args:
            records: Objects of one kind.
            columns: By the name of each column, an attribute of a record, or a function of one.
            title: What is in it.
            layout: `digits`, `keys` and `ids`.
        """
        cells = [attrgetter(each) if isinstance(each, str) else each for each in columns.values()]
        rows = [tuple(cell(record) for cell in cells) for record in records]
        return cls(tuple(columns), rows, title, **layout)

    @classmethod
    def of_dicts(cls, rows: Sequence[Mapping[str, Cell]]) -> "Table | None":
        """Make a table of rows that name their columns; nothing of no rows."""
        return cls(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else None

    def texts(self) -> list[list[list[str]]]:
        """Give the lines of the cells, as they are shown."""
        return [[cell_lines(cell, self.digits) for cell in row] for row in self.rows]

    def flush_right(self) -> list[bool]:
        """For each column but keys and ids, whether it holds numbers."""
        texts = self.texts()
        return [
            column >= self.keys
            and column not in self.ids
            and all(_NUMBER.fullmatch(row[column][0]) for row in texts)
            for column in range(len(self.header))
        ]


@dataclass(frozen=True)
class Picture:
    """A picture, and its numbers as a table for those who cannot see it.

    Attributes:
        svg: The picture, as SVG without a script.
        table: Its numbers.
        title: What it shows, in a line.
    """

    svg: str
    table: Table
    title: str


@dataclass(frozen=True)
class Page:
    """What is shown of a result; or a section of another page.

    Attributes:
        title: In a line.
        parts: What follows, in order.
        data: What JSON has of it: records, named tuples, dictionaries and the like.
        rows: What CSV has of it: a row for each value, with all digits; None: its first table.
        anchor: By which other parts of the page refer to it.
        folded: Whether a reader of HTML sees its title alone, and opens it.
    """

    title: str
    parts: tuple[Union[Text, Table, Picture, "Page"], ...] = ()
    data: Any = None
    rows: Table | None = None
    anchor: str = ""
    folded: bool = False

    def tables(self) -> Iterator[Table]:
        """Give all its tables, in order."""
        for each in self.parts:
            if isinstance(each, Table):
                yield each
            elif isinstance(each, Picture):
                yield each.table
            elif isinstance(each, Page):
                yield from each.tables()


def cell_lines(cell: Cell, digits: int = 4) -> list[str]:
    """Give the lines of a cell as plain text; at least one."""
    if isinstance(cell, tuple):
        return [line for one in cell for line in cell_lines(one, digits)] or [""]
    if isinstance(cell, Value):
        return [cell.number] if cell.low is None else [cell.number, cell.interval]
    if isinstance(cell, Span):
        return cell_lines(cell.text)
    if cell is None:
        return ["–"]
    if isinstance(cell, float):
        return [format(cell, f".{digits}f")]
    return [f"{cell:,}"] if isinstance(cell, int) else [*map(one_line, cell.split("\n"))]


def one_line(text: str) -> str:
    """Put a space for every line break and control character."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def cut(text: str, longest: int = 80) -> str:
    """Cut a text to a length, and put … where something is missing."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def marked(
    text: str, places: Iterable[tuple[int, int]], around: int | None = None
) -> Iterator[Span]:
    """Give a text with some of its places marked, for an excerpt.

    Args:
        text: A text.
        places: From which character up to which one.
        around: Only the lines within this many characters of the places, or of the beginning if
            there are no places; None: all.
    """
    ordered = sorted(places)
    start, end = 0, len(text)
    if around is not None:
        first, last = (ordered[0][0], max(stop for _, stop in ordered)) if ordered else (0, 0)
        start = text.rfind("\n", 0, max(0, first - around)) + 1 if first > around else 0
        end = found if (found := text.find("\n", last + around)) >= 0 else len(text)
    yield Span("…\n" if start else "")
    for begin, stop in ordered:
        if (begin := max(begin, start)) < stop:
            yield Span(text[start:begin])
            yield Span(text[begin:stop], "mark")
            start = stop
    yield Span(text[start:end].rstrip() + ("\n…" if end < len(text) else ""))


def located(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Find words in a text, for `marked`."""
    return [(at, at + len(each)) for each in words if (at := text.find(each)) >= 0]


def shortened(text: str, longest: int) -> str:
    """Shorten an id in its middle; its end, which tells it apart, is kept."""
    if len(text) <= longest:
        return text
    start = (longest - 1) // 2
    return f"{text[:start]}…{text[start + 1 - longest :]}"
