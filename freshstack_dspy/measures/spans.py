"""Spans of bytes: how much of them others cover, and what evidence a retriever brought, in bytes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

Span = tuple[int, int]
"""From one offset to another, the end left out."""
SpansByFile = Mapping[str, Sequence[Span]]
Unit = Literal["bytes", "chars"]


class Place(NamedTuple):
    """A run of bytes of one file of a corpus."""

    source: str
    path: str
    start: int
    end: int

    @property
    def passage_id(self) -> str:
        """As a chunk's id is made."""
        return f"{self.source}/{self.path}_{self.start}_{self.end}"


class Hit(NamedTuple):
    """One result of a retriever, as it was given."""

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
    """The same bytes as spans that neither overlap nor touch, ascending."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def size(spans: Iterable[Span]) -> int:
    """How many bytes spans hold that do not overlap."""
    return sum(end - start for start, end in spans)


def shared(one: Iterable[Span], other: Iterable[Span]) -> int:
    """How many bytes are in both."""
    first, second = merged(one), merged(other)
    found = place = 0
    for start, end in first:
        while place < len(second) and second[place][1] <= start:
            place += 1
        for begin, stop in second[place:]:
            if begin >= end:
                break
            found += min(end, stop) - max(start, begin)
    return found


class ByteScores(NamedTuple):
    """What share of the evidence was retrieved, and what share of the retrieved is evidence."""

    precision: float | None
    """None where nothing was retrieved."""
    recall: float | None
    """None where there is no evidence."""
    iou: float | None
    """Intersection over union; None where both are empty."""


def byte_scores(evidence: SpansByFile, retrieved: SpansByFile) -> ByteScores:
    """Compare the bytes of evidence with those retrieved; what overlaps counts once.

    Source: B. Smith and A. Troynikov, Evaluating Chunking Strategies for Retrieval, Chroma 2024,
    with bytes in place of tokens and overlapping passages merged.
    """
    files = evidence.keys() | retrieved.keys()
    both = sum(shared(evidence.get(file, ()), retrieved.get(file, ())) for file in files)
    wanted = sum(size(merged(spans)) for spans in evidence.values())
    found = sum(size(merged(spans)) for spans in retrieved.values())
    either = wanted + found - both
    return ByteScores(
        both / found if found else None,
        both / wanted if wanted else None,
        both / either if either else None,
    )
