"""Boundaries: where a text may be cut, and how good each place is.

An outline (of code, Markdown, a notebook …) gives the places its grammar knows.
`refine` keeps those that are needed to make pieces small enough, and where they do not
suffice adds finer ones: paragraphs, lines, sentences, words.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Boundary(NamedTuple):
    """A byte offset before which a text may be cut: the start of a line, or of a word in it."""

    offset: int
    level: int
    """How deep in the text's structure; 0 is best. `JOINED`: no boundary, but the contrary."""


JOINED = -1
"""The level of an offset that may not be cut before: a heading is about what begins there."""
FINER = 1000
"""The levels from here on are those of `_CUTS`; outlines stay below."""
_CUTS = (  # each ends where the next text, or the indentation before it, begins
    re.compile(rb"\n[ \t\r\f\v]*\n(?=\S)"),  # a blank line, and then text that is not indented
    re.compile(rb"\n[ \t\r\f\v]*\n(?:\s*[\r\n])?+"),
    re.compile(rb"[\r\n](?:\s*[\r\n])?+"),
    re.compile(rb"[.!?][\"')\]]*\s+|\xe3\x80\x82|\xef\xbc[\x81\x9f]"),  # and those of Chinese
    re.compile(rb"[\s;,)}\]>]+"),
)


Fits = Callable[[int, int], bool]
"""Whether the bytes from one offset to another are within the limit."""


def refine(outline: Iterable[Boundary], data: bytes, fits: Fits) -> list[Boundary]:
    """Choose the boundaries that cut a text into pieces that fit, coarse ones before fine ones.

    A piece that fits is not cut further, so what belongs together stays together. Pieces may
    be left that do not fit: words, or white space, longer than the limit.

    Returns:
        The boundaries strictly inside the text, in order, with text between any two of them,
        before the first and after the last.
    """
    found = sorted(set(outline))
    joined = frozenset(offset for offset, level in found if level == JOINED)
    offsets_at: dict[int, list[int]] = {}
    for offset, level in found:
        if offset not in joined:
            offsets_at.setdefault(level, []).append(offset)
    kept: list[Boundary] = []
    pieces = [(0, len(data))]

    def cut(level: int, offsets_in: Callable[[int, int], list[int]]) -> None:
        nonlocal pieces
        smaller = []
        for start, end in pieces:
            if fits(start, end):
                continue
            ends = offsets_in(start, end)
            kept.extend(Boundary(offset, level) for offset in ends)
            smaller += list(zip([start, *ends], [*ends, end], strict=True))
        pieces = smaller

    for level, offsets in sorted(offsets_at.items()):
        cut(level, functools.partial(_between, offsets))
    for level, pattern in enumerate(_CUTS, start=FINER):
        cut(level, functools.partial(_matched, pattern, data, joined))
    return _with_text_between(sorted(kept), data)


def _between(offsets: list[int], start: int, end: int) -> list[int]:
    return offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]


def _matched(
    pattern: re.Pattern[bytes], data: bytes, joined: frozenset[int], start: int, end: int
) -> list[int]:
    ends = [match.end() for match in pattern.finditer(data, start, end)]
    return [offset for offset in ends if offset < end and offset not in joined]


def _with_text_between(boundaries: list[Boundary], data: bytes) -> list[Boundary]:
    """Drop the boundaries that part white space from the text it belongs to.

    Indentation, and the white space at the beginning, belong to what follows; all else to what
    stands before it.
    """
    kept: list[Boundary] = []
    previous = 0
    for boundary in boundaries:
        part = data[previous : boundary.offset]
        if has_text(part):
            kept.append(boundary)
        elif kept and (b"\n" in part or b"\r" in part or data[previous - 1] not in b"\r\n"):
            kept[-1] = Boundary(boundary.offset, min(boundary.level, kept[-1].level))
        else:
            continue
        previous = boundary.offset
    if kept and not has_text(data[previous:]):
        kept.pop()
    return kept


def has_text(part: bytes) -> bool:
    """Whether a part of a text is more than white space."""
    return bool(part.strip() and (part.isascii() or part.decode().strip()))
