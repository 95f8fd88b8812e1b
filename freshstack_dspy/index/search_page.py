"""The page of a search: what was found, each with the line that has most of its words."""

from collections.abc import Iterator, Mapping, Sequence

from freshstack_dspy.pages.page import Page, Span, Table, Text, Value, cut
from freshstack_dspy.records import Chunk
from freshstack_dspy.text import terms

_LINE_WIDTH = 100


def search_page(
    searched: str,
    ranking: Sequence[tuple[str, float]],
    chunks: Mapping[str, Chunk],
    scored_by: str = "",
) -> Page:
    """Give the page of the chunks that were found; `scored_by` says what their scores are."""
    found = [(rank, *one) for rank, one in enumerate(ranking, 1)]
    note = f"score: {scored_by}; not to be compared between searches" if scored_by else ""
    notes = [Text(note, "note")] if note and found else []
    return Page(
        "" if found else "nothing found",
        (*_hits(set(terms(searched)), found, chunks), *notes),
        data=[
            {"rank": rank, "score": score, **chunks[chunk_id].model_dump(mode="json")}
            for rank, chunk_id, score in found
        ],
        rows=Table(
            ("rank", "score", "chunk_id"), [(rank, score, id_) for rank, id_, score in found]
        ),
    )


def _hits(
    wanted: set[str], found: Sequence[tuple[int, str, float]], chunks: Mapping[str, Chunk]
) -> Iterator[Text]:
    for rank, chunk_id, score in found:
        # The first of the lines that have the most of the words.
        lines = chunks[chunk_id].passage.splitlines() or [""]
        line = max(lines, key=lambda line: len(wanted.intersection(terms(line))))
        yield Text((f"{rank}  {Value(score, form='.6f')}  ", Span(chunk_id, "code")))
        yield Text(cut(line.strip(), _LINE_WIDTH), "item", 1)
