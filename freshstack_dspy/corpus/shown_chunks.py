"""Chunks, and parts of them, as models are shown them; and where their words are in the file."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from freshstack_dspy.records import Chunk, Spans
from freshstack_dspy.text import find_quotation

SHORTEST_LINES = 20
"""The fewest bytes of quoted lines that are looked for in an edited file; `return x` is common."""


class ChunkPart(NamedTuple):
    """The text of a chunk, or one of the parts that a chunk too long for a call is split into."""

    chunk: Chunk
    start: int
    """The place of its first character in `chunk.text`; below 0 in a title that is before it."""
    end: int
    part: int = 1
    """Which part, from 1."""
    parts: int = 1
    """How many parts the chunk has."""

    @property
    def chunk_id(self) -> str:
        """That of its chunk."""
        return self.chunk.chunk_id

    @property
    def text(self) -> str:
        """What the judge is shown; a copy, which a list of calls to be made does not hold."""
        titled = self.chunk.titled
        title = len(titled) - len(self.chunk.text)
        return titled[title + self.start : title + self.end]

    @property
    def path(self) -> str:
        """The path that the judge is shown; a text that is in no file has none."""
        path = f"{self.chunk.source}/{self.chunk.path}" if self.chunk.path else ""
        return path.removeprefix("/")  # of a label that came with its text, which has no source


def whole(chunk: Chunk) -> ChunkPart:
    """All of a chunk."""
    start = chunk.passage_start
    return ChunkPart(chunk, start, start + len(chunk.passage))


def as_chunk(chunk_id: str, text: str) -> Chunk:
    """A text that a model wrote; the judge sees neither its id nor a path, which could say so."""
    end = max(1, len(text.encode()))
    return Chunk(
        chunk_id=chunk_id,
        source="",
        path="",
        start_byte=0,
        end_byte=end,
        text=text,
        tokens=0,
    )


def parts_of(chunks: Sequence[Chunk | ChunkPart | str]) -> list[ChunkPart]:
    """Chunks as they are shown, whole ones and plain texts too."""
    records = (
        as_chunk(f"chunk {number}", chunk) if isinstance(chunk, str) else chunk
        for number, chunk in enumerate(chunks, 1)
    )
    return [whole(chunk) if isinstance(chunk, Chunk) else chunk for chunk in records]


def evidence(quotes: Sequence[str], passage: ChunkPart) -> Spans:
    """Where the quotes from a passage are in its file; one that is not verbatim has no place.

    Nor has one from the title, which is not in the file.
    """
    spans = set()
    for quote in quotes:
        if place := find_quotation(quote, passage.text):
            start, end = (max(0, passage.start + offset) for offset in place)
            if start < end:
                spans.add((passage.chunk.byte_at(start), passage.chunk.byte_at(end)))
    return tuple(sorted(spans))


def chunk_with_words(
    text: str, places: Iterable[tuple[int, int]], before: Sequence[str], now: Sequence[Chunk]
) -> Chunk | None:
    """Find the chunk of an edited file that still says what was quoted from an earlier chunk of it.

    The words of each place must be in the file once before and once now, all of the latter in one
    chunk, and the lines that they are on must be unchanged: "can be used" is not found in "can be
    used no longer".

    Args:
        text: That of the earlier chunk.
        places: What was quoted, by its characters in `text`.
        before: The texts of all chunks that the file had.
        now: All chunks of the file.

    Returns:
        The chunk; None if there is none, or the lines have fewer than 20 bytes in all.
    """
    quotes = {text[start:end]: _lines(text, start, end) for start, end in places}
    if sum(len(lines.encode()) for lines in set(quotes.values())) < SHORTEST_LINES:
        return None
    texts = [chunk.text for chunk in now]
    is_unique = all(
        sum(text.count(words) for text in side) == 1 for words in quotes for side in (before, texts)
    )
    holding = (
        chunk for chunk in now if all(_unchanged(chunk.text, *quote) for quote in quotes.items())
    )
    return next(holding, None) if is_unique else None


def _unchanged(text: str, words: str, lines: str) -> bool:
    start = text.find(words)
    return start >= 0 and _lines(text, start, start + len(words)) == lines


def _lines(text: str, start: int, end: int) -> str:
    """The whole lines that a part of a text is on, without white space around them."""
    behind = text.find("\n", max(start, end - 1))
    return text[text.rfind("\n", 0, start) + 1 : behind if behind >= 0 else len(text)].strip()
