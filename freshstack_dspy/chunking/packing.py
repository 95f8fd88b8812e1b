"""Packing: pieces as large as the token limit allows, cut at the best boundaries."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import NamedTuple

from freshstack_dspy.chunking.boundaries import Boundary, has_text
from freshstack_dspy.chunking.tokens import TokenTable

_SMALLEST_SHARE = 8
"""A boundary that would leave less than this part of the limit is a last resort."""


class Piece(NamedTuple):
    """A part of a text, from one byte to another."""

    start: int
    end: int
    tokens: int


class Packer:
    """Cuts one text from front to back.

    Each piece reaches to the best boundary within the limit: the one highest in the structure,
    and of several such the farthest. Where no boundary is within the limit, as inside an
    endless word, the cut falls between two characters.
    """

    def __init__(
        self,
        data: bytes,
        boundaries: list[Boundary],
        table: TokenTable,
        inseparable: Collection[int] = (),
    ) -> None:
        """Take a text in UTF-8, its boundaries, and the offsets that may not be cut before."""
        self._data = data
        self._boundaries = boundaries
        self._offsets = [boundary.offset for boundary in boundaries]
        self._table = table
        self._inseparable = inseparable

    def pieces(self, max_tokens: int) -> Iterator[Piece]:
        """Give pieces of at most `max_tokens` tokens, each of which begins where the last ended.

        A piece holds some text, unless it lies in white space that is longer than the limit.
        """
        start = 0
        while start < len(self._data):
            budget = max_tokens
            end = self._cut(start, budget)
            tokens = self._table.exact_count(start, end)
            while tokens > max_tokens and budget > 1:
                budget = max(1, min(budget - 1, budget + max_tokens - tokens))
                end = self._cut(start, budget)
                tokens = self._table.exact_count(start, end)
            yield Piece(start, end, tokens)
            start = end

    def _cut(self, start: int, budget: int) -> int:
        """Choose where the piece ends that begins at `start`."""
        left = self._table.count(start, len(self._data))
        if left <= budget:
            return len(self._data)
        small = budget // _SMALLEST_SHARE
        first = bisect_right(self._offsets, start)
        # First so that what is left for the last piece is no crumb.
        for room in (max(1, min(budget, left - small)), budget):
            reach = self._table.reach(start, room)
            last = bisect_right(self._offsets, reach)
            if first < last:
                return self._best(start, small, first, last)
        end = [*self._offsets[first : first + 1], len(self._data)][0]
        return self._between_characters(start, self._table.reach(start, budget), end)

    def _best(self, start: int, small: int, first: int, last: int) -> int:
        large = bisect_left(self._offsets, self._table.reach(start, small), first, last)
        if large == last:
            return self._offsets[last - 1]
        best = min(self._boundaries[large:last], key=lambda found: (found.level, -found.offset))
        return best.offset

    def _between_characters(self, start: int, offset: int, end: int) -> int:
        """Move a cut back to where one is allowed, but not so far that nothing is left.

        Text is left behind the cut as well, before the next boundary at `end`, if there can be.
        """
        cut = self._outside(start, offset)
        if not has_text(self._data[cut:end]):
            text = self._data[start:cut].decode().rstrip()
            last = start + len(text[:-1].encode())
            cut = self._outside(start, last) if last > start else cut
        return cut

    def _outside(self, start: int, offset: int) -> int:
        """Give the next place, backwards if it can be, that is not inside of a character."""
        while offset > start and self._inside(offset):
            offset -= 1
        if offset == start:
            offset += 1
            while offset < len(self._data) and self._inside(offset):
                offset += 1
        return offset

    def _inside(self, offset: int) -> bool:
        return self._data[offset] & 0xC0 == 0x80 or offset in self._inseparable
