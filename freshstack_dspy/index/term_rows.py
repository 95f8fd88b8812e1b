"""The terms of a corpus, numbered: cut once, counted by both retrievers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from freshstack_dspy.records import Chunk
from freshstack_dspy.terms import terms

_REPORT_EVERY = 500


class TermRows(NamedTuple):
    """A corpus as term numbers."""

    vocabulary: dict[str, int]
    """Each term's number, in the order of first appearance."""
    rows: list[list[int]]
    """For each chunk the numbers of its terms, in order, with repetitions."""


def indexed_text(chunk: Chunk) -> str:
    """What a chunk is found by: its path, for names of files and folders tell much, and its text."""
    return f"{chunk.path}\n{chunk.text}"


def number_terms(chunks: Sequence[Chunk], progress: Callable[[float], None]) -> TermRows:
    """Cut the chunks' indexed texts into terms and number these.

    Args:
        chunks: The rows of the index.
        progress: Told the fraction done, now and then.
    """
    vocabulary: dict[str, int] = {}
    rows = []
    for done, chunk in enumerate(chunks):
        if done % _REPORT_EVERY == 0:
            progress(done / len(chunks))
        rows.append(
            [vocabulary.setdefault(term, len(vocabulary)) for term in terms(indexed_text(chunk))]
        )
    return TermRows(vocabulary, rows)
