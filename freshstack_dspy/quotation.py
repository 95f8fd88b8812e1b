"""Where a quotation stands in a text: told exactly, though it is copied loosely.

Models quote Markdown as it looks and not as it is written. So both sides are compared without white
space and marks, and with one form of quotation mark and dash; what is found is a place of the text.
"""

import functools
import re
from typing import NamedTuple

_MARKS = frozenset("*_`\\|")
_SIMPLE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
_FENCE = re.compile(r"^[ \t>]{0,20}(?:`{3,}|~{3,})[^`\n]{0,200}$", re.MULTILINE)
_LINE_MARK = re.compile(
    r"^[ \t]*(?:(?:>[ \t]?)+|(?:\#{1,6}|[-*+]|\d{1,3}[.)]|\.\.\.|\$)(?=[ \t]))", re.MULTILINE
)
_LINK = re.compile(r"!?\[(?P<shown>[^\[\]\n]{0,300})\](?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,100}\])")
_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|code|div|em|hr|i|img|kbd|li|ol|p|pre|span|strong|sub|sup|ul)"
    r"(?:\s[^<>\n]{0,1000})?/?>",
    re.IGNORECASE,
)
_MOST_LOOKED_AT = 100
"""Places of a quotation that are looked at for one that cuts no word."""


class Span(NamedTuple):
    """A place in a text, as `text[start:end]`; in characters (code points)."""

    start: int
    end: int


class _Bare(NamedTuple):
    """What is compared of a text, and where each of its characters stands in it."""

    text: str
    places: tuple[int, ...]


def find_quotation(quotation: str, text: str) -> Span | None:
    """Find where a quotation stands in a text.

    It stands there word for word, or but for white space, marks of Markdown (emphasis, code,
    links, headings, list items, tags, escapes) and the form of quotation marks and dashes.

    Args:
        quotation: What is quoted; white space around it does not count.
        text: Markdown.

    Returns:
        The first place that cuts no word, or else the first place; None if there is none, or
        nothing is quoted. Marks of emphasis and code directly around a place belong to it.
    """
    written = quotation.strip()
    found = _first(written, text, text, range(len(text))) if written else None
    for without in (_without_space, _without_marks):
        if found is None:
            bare, whole = without(written).text, without(text)
            found = _first(bare, whole.text, text, whole.places) if bare else None
            found = found and _with_marks(found, text)
    return found


def _first(needle: str, hay: str, text: str, places: "range | tuple[int, ...]") -> Span | None:
    first: Span | None = None
    position = hay.find(needle)
    for _ in range(_MOST_LOOKED_AT):
        if position < 0:
            break
        span = Span(places[position], places[position + len(needle) - 1] + 1)
        if not (_cuts_word(text, span.start) or _cuts_word(text, span.end)):
            return span
        first = first or span
        position = hay.find(needle, position + 1)
    return first


def _cuts_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and all(
        one.isalnum() or one == "_" for one in text[place - 1 : place + 1]
    )


def _with_marks(span: Span, text: str) -> Span:
    start, end = span
    while start > 0 and text[start - 1] in "*`":
        start -= 1
    while end < len(text) and text[end] in "*`":
        end += 1
    return Span(start, end)


# Kept for the many quotations from one text.
@functools.lru_cache(maxsize=64)
def _without_space(text: str) -> _Bare:
    places = tuple(place for place, one in enumerate(text) if not one.isspace())
    return _Bare("".join(text.split()), places)


@functools.lru_cache(maxsize=64)
def _without_marks(text: str) -> _Bare:
    left_out = bytearray(len(text))
    for pattern in (_FENCE, _LINE_MARK, _TAG):
        for match in pattern.finditer(text):
            left_out[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    for match in _LINK.finditer(text):
        for start, end in (
            (match.start(), match.start("shown")),
            (match.end("shown"), match.end()),
        ):
            left_out[start:end] = b"\1" * (end - start)
    places = tuple(
        place
        for place, one in enumerate(text)
        if not (left_out[place] or one in _MARKS or one.isspace())
    )
    simple = text.translate(_SIMPLE)
    return _Bare("".join([simple[place] for place in places]), places)
