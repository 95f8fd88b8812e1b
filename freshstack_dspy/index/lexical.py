"""The terms of a corpus, and BM25 over them by bm25s."""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import RowScore, best_rows
from freshstack_dspy.records import Chunk
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from types import ModuleType

    from bm25s import BM25

K1, B = 1.2, 0.75
"""Lucene's defaults. On SciFact and on search for functions by their docstrings they are better
than Anserini's .9 and .4."""
_AT_ONCE = 500
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,9}$")


def indexed_text(chunk: Chunk) -> str:
    """What a chunk is found by: its path, headings, title and text; names of files tell much.

    The id of a document that is no file is not searched: a path that is the chunk's id, or one with
    a digit and without an extension, as `802` and `doc/802`.
    """
    is_id = chunk.path == chunk.chunk_id or (
        re.search(r"\d", chunk.path) and not _EXTENSION.search(chunk.path)
    )
    return "\n".join([*([] if is_id else [chunk.path]), *chunk.headings, chunk.titled])


class CorpusTerms(NamedTuple):
    """The terms of each row of a corpus, as numbers."""

    rows: list[list[int]]
    """With repetitions, in the order of the text."""
    vocabulary: dict[str, int]
    """Each term's number."""

    @classmethod
    def of(cls, texts: Sequence[str], report: Callable[[float], None]) -> Self:
        """Cut texts into terms."""
        vocabulary: dict[str, int] = {}
        rows = []
        for place, text in enumerate(texts):
            if place % _AT_ONCE == 0:
                report(place / len(texts))
            rows.append([vocabulary.setdefault(term, len(vocabulary)) for term in terms(text)])
        if not vocabulary:
            raise IndexingError(f"none of the {len(texts)} chunks holds a word to find it by")
        report(1)
        return cls(rows, vocabulary)


class LexicalIndex:
    """BM25 as Lucene defines it (Kamphuis et al., ECIR 2020), with exact document lengths.

    score(q, d) = Σ over the terms t of q, repetitions counted, of
    ln(1 + (N - df + .5) / (df + .5)) · tf / (tf + k1 · (1 - b + b · |d| / average |d|))
    """

    def __init__(self, model: "BM25") -> None:
        self._model = model

    @classmethod
    def build(cls, corpus: CorpusTerms) -> Self:
        """Score each term in each row."""
        model = _bm25s().BM25(k1=K1, b=B, method="lucene", dtype="float64", backend="numpy")
        model.index(corpus, create_empty_token=False, show_progress=False)
        return cls(model)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        self._model.save(folder, allow_pickle=False, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; the arrays are mapped into memory."""
        return cls(_bm25s().BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False))

    def frequency(self, term: str) -> int:
        """How many rows have a term."""
        number = self._model.vocab_dict.get(term)
        if number is None:
            return 0
        starts = self._model.scores["indptr"]  # each term's scores, one for each row that has it
        return int(starts[number + 1] - starts[number])

    def search(self, texts: Sequence[str], depth: int) -> list[list[RowScore]]:
        """Rank rows for each text; a text without a known term finds nothing."""
        numbers = self._model.vocab_dict
        rankings: list[list[RowScore]] = []
        for text in texts:
            known = sorted(numbers[term] for term in terms(text) if term in numbers)
            scores = self._model.get_scores_from_ids(known) if known else np.zeros(0)
            rankings.append(best_rows(scores, depth))
        return rankings


def _bm25s() -> "ModuleType":
    """Import bm25s without the debugging messages that it turns on for the whole program."""
    logger = logging.getLogger("bm25s")
    level = logger.level
    import bm25s

    logger.setLevel(level)
    module: ModuleType = bm25s
    return module
