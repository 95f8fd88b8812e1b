"""Pictures as SVG: dots with intervals, bars of counts, and columns by rank, each with its numbers.

They take the colours of the page that they are in (light, dark, on paper), and say nothing by colour
alone. A picture is as wide as a telephone, and grows with its place.
"""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.pages.markdown import visible
from freshstack_dspy.pages.page import Picture, Table, Value, one_line, part, percent, shortened

_WIDTH = 420
_LONGEST = 34
_INK, _SOFT, _LINE, _MARK = (
    "currentColor",
    "var(--soft,currentColor)",
    "var(--line,#999)",
    "var(--link,currentColor)",
)


class Dot(NamedTuple):
    """A value with its interval, in a row of its own."""

    label: str
    value: Value
    note: str = ""
    """What is written next to the value, as the share that is unjudged."""
    hollow: bool = False
    """Whether it is drawn as a ring: a value that says little."""
    across: bool = False
    """Whether a dashed line through all rows marks it, as of an oracle."""


def dots_picture(
    title: str, dots: Sequence[Dot], columns: Sequence[str], *, zero: bool = False
) -> Picture:
    """Draw values with their intervals, one below the other.

    Args:
        title: What they are of, in a line.
        dots: In their order, the first on top.
        columns: The names of the table's columns: of label, value and, if there are any, note.
        zero: Whether a line marks 0, as of differences.
    """
    rows = [(*dot[:2], dot.note)[: len(columns)] for dot in dots]
    ends = [0.0] * zero + [
        end for dot in dots for end in (dot.value.value, dot.value.low, dot.value.high) if end is not None
    ]  # fmt: skip
    scale = _Scale(ends)
    height = 34 * len(dots)
    drawn = [
        _words(scale.x(tick), height + 13, scale.written(tick), _SOFT, "middle")
        for tick in scale.ticks
    ]
    for number, dot in enumerate(dots):
        for tick in scale.ticks:
            marked = _INK if zero and not tick else _LINE
            place = f"M{scale.x(tick)} {34 * number + 19}v13"
            drawn.append(f'<path d="{place}" stroke="{marked}"/>')
        for each in dots:
            if each.across and each.value.value is not None:
                place = f"M{scale.x(each.value.value)} {34 * number + 17}v17"
                drawn.append(f'<path d="{place}" stroke="{_INK}" stroke-dasharray="3 3"/>')
        drawn += _dot(dot, 34 * number, scale)
    return Picture(_svg(title, height + 22, drawn), Table(columns, rows, ids=(0,)), title)


def _dot(dot: Dot, top: int, scale: "_Scale") -> Iterator[str]:
    value, y = dot.value, top + 25
    note = f", {dot.note}" if dot.note else ""
    yield _words(0, top + 14, dot.label)
    yield _words(_WIDTH, top + 14, f"{value.number}{note}", _SOFT, "end")
    if value.low is not None and value.high is not None:
        yield (
            f'<path d="M{scale.x(value.low)} {y}H{scale.x(value.high)}" '
            f'stroke="{_MARK}" stroke-width="3"/>'
        )
    if value.value is None:
        return
    colour = _INK if dot.across else _MARK
    fill = "var(--paper,#fff)" if dot.hollow else colour
    if dot.across:
        place = f"M{scale.x(value.value)} {y - 6}l6 6l-6 6l-6 -6z"
        yield f'<path d="{place}" fill="{fill}" stroke="{colour}"/>'
    else:
        yield (
            f'<circle cx="{scale.x(value.value)}" cy="{y}" r="5" fill="{fill}" '
            f'stroke="{colour}" stroke-width="2"/>'
        )


def bars_picture(
    title: str, groups: Mapping[str, Mapping[str, int]], columns: Sequence[str], of: int
) -> Picture:
    """Draw counts as bars, in groups.

    Args:
        title: What is counted.
        groups: The counts by name, for each group; a group without a name has no heading.
        columns: The names of the table's columns: of group, name and count; of one group, of the
            last two.
        of: How many there are in all: the length of the whole line.
    """
    rows = [
        (*((group,) if len(columns) > 2 else ()), name, part(number, of))
        for group, counts in groups.items()
        for name, number in counts.items()
    ]
    drawn, y = list[str](), 0
    for group, counts in groups.items():
        if group:
            drawn.append(_words(0, y + 14, group, bold=True))
            y += 20
        for name, number in counts.items():
            drawn += _bar(y, name, number, of)
            y += 20
        y += 6
    return Picture(_svg(title, y, drawn), Table(columns, rows, keys=len(columns) - 1), title)


def _bar(y: int, name: str, number: int, of: int) -> Iterator[str]:
    start, room = 130, 200
    yield _words(0, y + 14, shortened(name, 20))
    yield f'<rect x="{start}" y="{y + 4}" width="{room}" height="12" fill="{_LINE}" opacity=".4"/>'
    length = _short(room * number / max(of, 1))
    yield f'<rect x="{start}" y="{y + 4}" width="{length}" height="12" fill="{_MARK}"/>'
    yield _words(start + room + 8, y + 14, part(number, of), _SOFT)


def columns_picture(
    title: str, rows: Sequence[tuple[int, int, int]], columns: Sequence[str]
) -> Picture:
    """Draw, for each of some ranks, how many there are and which part of them counts.

    Args:
        title: What is counted.
        rows: Rank, all, and those of them that count.
        columns: The names of the table's columns: of these three, and of the share.
    """
    highest = max((all_ for _, all_, _ in rows), default=1)
    left, floor = 40, 128
    step = (_WIDTH - left) / max(len(rows), 1)
    wide = _short(min(step * 0.8, 40))
    drawn = [
        _words(left - 6, floor, "0", _SOFT, "end"),
        _words(left - 6, 16, f"{highest:,}", _SOFT, "end"),
    ]
    every = math.ceil(len(rows) / 12)
    for number, (rank, all_, counts) in enumerate(rows):
        x = _short(left + step * number)
        for amount, fill in ((all_, f'{_LINE}" opacity=".6'), (counts, _MARK)):
            tall = _short(120 * amount / highest)
            drawn.append(
                f'<rect x="{x}" y="{_short(floor - float(tall))}" width="{wide}" height="{tall}" '
                f'fill="{fill}"/>'
            )
        if number % every == 0:
            middle = _short(float(x) + float(wide) / 2)
            drawn.append(_words(middle, floor + 15, str(rank), _SOFT, "middle"))
    cells = [
        (str(rank), all_, counts, percent(counts / all_ if all_ else None))
        for rank, all_, counts in rows
    ]
    return Picture(_svg(title, floor + 22, drawn), Table(columns, cells), title)


class _Scale:
    """Where values are, from left to right, with a few round ones to mark."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        # A difference in the last digits of a float is none that can be marked.
        span = max(high - low or abs(high) or 1.0, 1e-12 * abs(high), 1e-12)
        power = 10 ** math.floor(math.log10(span / 4))
        step = next(power * by for by in (1, 2, 5, 10) if span / (power * by) <= 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if first == last:
            first, last = (first - 1, last) if high > 0 else (first, last + 1)
        self.ticks = [step * number for number in range(first, last + 1)]
        self._digits = max(0, -math.floor(math.log10(step) + 1e-9))

    def x(self, value: float) -> str:
        """In the picture's units, with room for the marks at both ends."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return _short(20 + share * (_WIDTH - 40))

    def written(self, tick: float) -> str:
        return f"{tick:.{self._digits}f}"


def _svg(title: str, height: int, drawn: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-size="12" fill="none">'
        f"<title>{_safe(title)}</title><desc>The table below it has its numbers.</desc>"
        f"{''.join(drawn)}</svg>"
    )


def _words(
    x: float | str,
    y: int,
    text: str,
    fill: str = _INK,
    anchor: str = "start",
    *,
    bold: bool = False,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    words = _safe(shortened(text, _LONGEST if anchor == "start" and fill == _INK else 60))
    return f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}"{weight}>{words}</text>'


def _safe(text: str) -> str:
    return html.escape(one_line(visible(text)))


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
