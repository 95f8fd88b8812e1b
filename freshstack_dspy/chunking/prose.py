"""The outlines of Markdown and reStructuredText: their headings, and their blocks."""

import re
from collections.abc import Iterator

from freshstack_dspy.chunking.boundaries import JOINED, Boundary

_BLOCK_LEVEL = 50
"""Below every heading."""
_ATX_HEADING = re.compile(rb" {0,3}(#{1,6})(?:[ \t]|$)")
_SETEXT_UNDERLINE = re.compile(rb" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(rb"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FRONT_MATTER = b"---"
_ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1*$")


def markdown_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of Markdown by their rank, and its blocks below them.

    Nothing inside a fenced block or the front matter is a boundary, and a heading is joined to
    what follows it.
    """
    offset = 0
    fence = b""
    paragraph: int | None = None
    after_blank, after_heading = True, False
    for number, line in enumerate(data.splitlines(keepends=True)):
        text = line.rstrip()
        start, offset = offset, offset + len(line)
        if fence:
            fence = b"" if _closes(text, fence) else fence
            continue
        if number == 0 and text == _FRONT_MATTER:
            fence = text
            continue
        if not text:
            after_blank, paragraph = True, None
            continue
        heading = _heading(text, start, paragraph)
        if after_heading or (heading and heading.offset < start):
            yield Boundary(start, JOINED)
        if heading:
            yield heading
        elif after_blank and not line[:1].isspace():
            yield Boundary(start, _BLOCK_LEVEL)
        opening = _FENCE.match(text)
        fence = opening[1] if opening else b""
        if heading or opening:
            paragraph = None
        elif paragraph is None:
            paragraph = start
        after_blank, after_heading = False, heading is not None


def _heading(text: bytes, start: int, paragraph: int | None) -> Boundary | None:
    """Read a line as a heading, or as what makes one of the paragraph above it."""
    marked = _ATX_HEADING.match(text)
    if marked:
        return Boundary(start, len(marked[1]))
    underline = _SETEXT_UNDERLINE.match(text)
    if underline and paragraph is not None:
        return Boundary(paragraph, 1 if underline[1].startswith(b"=") else 2)
    return None


def _closes(text: bytes, fence: bytes) -> bool:
    if fence == _FRONT_MATTER:
        return text in (_FRONT_MATTER, b"...")
    text = text.strip()
    return len(text) >= len(fence) and text == fence[:1] * len(text)


def rst_outline(data: bytes) -> Iterator[Boundary]:
    """Give the section titles of reStructuredText by rank, and its blocks below them.

    The rank of a title is the order in which its style (adornment, with or without overline)
    first appears. What is indented belongs to the block above it.
    """
    lines = data.splitlines(keepends=True)
    texts = [line.rstrip() for line in lines]
    styles: list[tuple[bytes, bool]] = []
    offset, skip_to, after_title = 0, 0, False
    for number, text in enumerate(texts):
        start, offset = offset, offset + len(lines[number])
        if not text:
            continue
        if after_title:
            yield Boundary(start, JOINED)
        if number < skip_to:
            continue
        title = _title(texts, number)
        if title is not None:
            overlined = title[1]
            if title not in styles:
                styles.append(title)
            yield Boundary(start, min(styles.index(title) + 1, _BLOCK_LEVEL - 1))
            skip_to = number + (3 if overlined else 2)
        elif not text[:1].isspace() and (number == 0 or not texts[number - 1]):
            yield Boundary(start, _BLOCK_LEVEL)
        after_title = title is not None


def _title(texts: list[bytes], number: int) -> tuple[bytes, bool] | None:
    """Give the style of the title that begins on a line: its character, and if it has an overline."""
    lines = [*texts[number : number + 3], b"", b""]
    over = _ADORNMENT.match(lines[0])
    if over and lines[2] == lines[0] and 0 < _width(lines[1]) <= len(lines[0]):
        return over[1], True
    under = _ADORNMENT.match(lines[1])
    if under and not over and not lines[0][:1].isspace() and _width(lines[0]) <= len(lines[1]):
        return under[1], False
    return None


def _width(line: bytes) -> int:
    """Count the characters of a line."""
    return len(line.decode())
