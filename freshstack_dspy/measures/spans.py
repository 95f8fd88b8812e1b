"""Spans of bytes, and how far they overlap."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Span = tuple[int, int]
"""From one offset to another, the end left out."""
Unit = Literal["bytes", "chars"]


class Place(NamedTuple):
    """A run of bytes of one file of a corpus."""

    source: str
    path: str
    start: int
    end: int

    @property
    def passage_id(self) -> str:
        """The id of this place, in the form of a chunk's id."""
        return f"{self.source}/{self.path}_{self.start}_{self.end}"


class Hit(NamedTuple):
    """One result of a retriever, in its original form."""

    score: float
    chunk_id: str | None = None
    source: str | None = None
    path: str | None = None
    """The path of the file, as far as it is known: whole, absolute, or its last parts."""
    text: str | None = None
    start: int | None = None
    end: int | None = None
    unit: Unit = "chars"


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge spans into ascending spans that neither overlap nor touch."""
    disjoint: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if disjoint and start <= disjoint[-1][1]:
            disjoint[-1] = disjoint[-1][0], max(end, disjoint[-1][1])
        else:
            disjoint.append((start, end))
    return disjoint


def size(spans: Iterable[Span]) -> int:
    """Count the bytes of spans that do not overlap."""
    return sum(end - start for start, end in spans)


def shared(spans: Iterable[Span], others: Iterable[Span]) -> int:
    """Count the bytes that are in both."""
    first, second = merged(spans), merged(others)
    total = place = 0
    for start, end in first:
        while place < len(second) and second[place][1] <= start:
            place += 1
        for begin, stop in second[place:]:
            if begin >= end:
                break
            total += min(end, stop) - max(start, begin)
    return total
