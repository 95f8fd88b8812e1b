"""The outlines of Markdown and reStructuredText: their headings, and their blocks."""

import re
from collections.abc import Iterator

from freshstack_dspy.chunking.boundaries import Boundary

_BLOCK_LEVEL = 50
"""Below every heading."""
_ATX_HEADING = re.compile(rb" {0,3}(#{1,6})(?:[ \t]|$)")
_SETEXT_UNDERLINE = re.compile(rb" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(rb"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FRONT_MATTER = b"---"
_ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1+$")


def markdown_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of Markdown by their rank, and its blocks below them.

    Nothing inside a fenced block or the front matter is a boundary, and a heading is not parted
    from what follows it.
    """
    offset = block_start = 0
    fence = b""
    begins_block, after_heading = True, False
    for number, line in enumerate(data.splitlines(keepends=True)):
        text = line.rstrip()
        start, offset = offset, offset + len(line)
        opening = _FENCE.match(text)
        if fence:
            if _closes(text, fence):
                fence, begins_block = b"", False
            continue
        if number == 0 and text == _FRONT_MATTER:
            fence = text
            continue
        if not text:
            begins_block = True
            continue
        heading = _ATX_HEADING.match(text)
        underline = _SETEXT_UNDERLINE.match(text)
        if heading:
            yield Boundary(start, len(heading[1]))
        elif underline and not begins_block and not after_heading:
            yield Boundary(block_start, 1 if underline[1].startswith(b"=") else 2)
        elif begins_block and not after_heading and not line[:1].isspace():
            yield Boundary(start, _BLOCK_LEVEL)
        if begins_block:
            block_start = start
        fence = opening[1] if opening else b""
        after_heading = bool(heading or (underline and not begins_block))
        begins_block = False


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
        if number < skip_to or not text:
            continue
        title = _title(texts, number)
        if title is not None:
            overlined = title[1]
            if title not in styles:
                styles.append(title)
            yield Boundary(start, min(styles.index(title) + 1, _BLOCK_LEVEL - 1))
            skip_to = number + (3 if overlined else 2)
        elif not after_title and not text[:1].isspace() and (number == 0 or not texts[number - 1]):
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
