"""Packing: pieces as large as the token limit allows, cut at the best boundaries."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from freshstack_dspy.chunking.boundaries import Boundary
from freshstack_dspy.chunking.tokens import TokenTable

_SPACE = b" \t\n\r\f\v"
_TEXT = re.compile(rb"[^ \t\n\r\f\v]")
_BOM = b"\xef\xbb\xbf"
_SMALLEST_SHARE = 8
"""A boundary that would leave less than this part of the limit is a last resort."""


class Piece(NamedTuple):
    """A part of a text, without the white space around it."""

    start: int
    end: int
    text: str
    tokens: int


class Packer:
    """Cuts one text from front to back.

    Each piece reaches to the best boundary within the limit: the one highest in the structure,
    and of several such the farthest. Where no boundary is within the limit, as inside an
    endless word, the cut falls between two characters.
    """

    def __init__(self, data: bytes, boundaries: list[Boundary], table: TokenTable) -> None:
        self._data = data
        self._boundaries = boundaries
        self._offsets = [boundary.offset for boundary in boundaries]
        self._table = table

    def pieces(self, max_tokens: int) -> Iterator[Piece]:
        """Give pieces of at most `max_tokens` tokens.

        White space between pieces belongs to none, but for the indentation of a piece's first
        line; nor does a byte order mark at the beginning. Every other byte is in one piece.
        """
        start = self._next_text(len(_BOM) if self._data.startswith(_BOM) else 0)
        while start < len(self._data):
            budget = max_tokens
            piece = self._piece(start, budget)
            while piece.tokens > max_tokens and budget > 1:
                budget = max(1, min(budget - 1, budget + max_tokens - piece.tokens))
                piece = self._piece(start, budget)
            if piece.text.strip():
                yield piece
            start = self._next_text(piece.end)

    def _piece(self, start: int, budget: int) -> Piece:
        end = self._cut(start, budget)
        content = self._data[start:end].rstrip(_SPACE)
        end = start + len(content)
        return Piece(start, end, content.decode(), self._table.exact_count(start, end))

    def _cut(self, start: int, budget: int) -> int:
        """Choose where the piece ends that begins at `start`."""
        reach = self._reach(start, budget)
        if reach == len(self._data):
            return reach
        small = budget // _SMALLEST_SHARE
        left = self._table.count(start, len(self._data))
        if left - small < budget:  # what is left for the last piece would be a crumb
            reach = self._reach(start, max(1, left - small))
        first = bisect_right(self._offsets, start)
        last = bisect_right(self._offsets, reach)
        if first == last:
            return self._between_characters(start, self._table.reach(start, budget))
        large = bisect_left(self._offsets, self._table.reach(start, small), first, last)
        if large == last:
            return self._offsets[last - 1]
        best = min(self._boundaries[large:last], key=lambda found: (found.level, -found.offset))
        return best.offset

    def _reach(self, start: int, budget: int) -> int:
        """Give the farthest end of a piece; the white space behind it costs nothing."""
        found = _TEXT.search(self._data, self._table.reach(start, budget))
        return found.start() if found else len(self._data)

    def _between_characters(self, start: int, offset: int) -> int:
        """Move a cut back to the start of a character, but not so far that nothing is left."""
        while offset > start and self._data[offset] & 0xC0 == 0x80:
            offset -= 1
        if offset == start:
            offset += 1
            while offset < len(self._data) and self._data[offset] & 0xC0 == 0x80:
                offset += 1
        return offset

    def _next_text(self, offset: int) -> int:
        """Skip white space to the line of the next text; keep that line's indentation."""
        found = _TEXT.search(self._data, offset)
        if found is None:
            return len(self._data)
        text = found.start()
        line = max(self._data.rfind(b"\n", offset, text), self._data.rfind(b"\r", offset, text))
        return text if line < 0 else line + 1
