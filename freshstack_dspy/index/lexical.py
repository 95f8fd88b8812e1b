"""The lexical half of the index: BM25 over the terms of prose and code, by bm25s."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self

from freshstack_dspy.index.ranking import RowScore, best_rows
from freshstack_dspy.index.term_rows import TermRows
from freshstack_dspy.terms import terms

if TYPE_CHECKING:
    from bm25s import BM25

K1, B = 1.2, 0.75
"""Lucene's defaults. On SciFact and on search for functions by their docstrings they are better
than Anserini's .9 and .4."""


class LexicalIndex:
    """BM25 as Lucene defines it (Kamphuis et al., ECIR 2020), with exact document lengths.

    score(q, d) = Σ over the terms t of q, repetitions counted, of
    ln(1 + (N - df + .5) / (df + .5)) · tf / (tf + k1 · (1 - b + b · |d| / average |d|))
    """

    def __init__(self, model: "BM25", vocabulary: dict[str, int]) -> None:
        self._model = model
        self._vocabulary = vocabulary

    def __len__(self) -> int:
        return int(self._model.scores["num_docs"])

    @classmethod
    def build(cls, corpus: TermRows) -> Self:
        """Index a corpus of at least one row and one term."""
        model = _bm25s().BM25(k1=K1, b=B, method="lucene", dtype="float64", backend="numpy")
        model.index(
            (corpus.rows, dict(corpus.vocabulary)), create_empty_token=False, show_progress=False
        )
        return cls(model, corpus.vocabulary)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        self._model.save(folder, allow_pickle=False, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; nothing is unpickled."""
        vocabulary = json.loads((folder / "vocab.index.json").read_text(encoding="utf-8"))
        model = _bm25s().BM25.load(
            folder, load_vocab=False, allow_pickle=False, show_progress=False
        )
        return cls(model, vocabulary)

    def search(self, texts: Sequence[str], depth: int) -> list[list[RowScore]]:
        """Rank rows for each text; a text without a known term finds nothing."""
        return [self._search_one(text, depth) for text in texts]

    def _search_one(self, text: str, depth: int) -> list[RowScore]:
        known = [self._vocabulary[term] for term in terms(text) if term in self._vocabulary]
        return best_rows(self._model.get_scores_from_ids(known), depth) if known else []


def _bm25s() -> ModuleType:
    """Import bm25s without the debugging messages that it turns on for the whole program."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    module: ModuleType = bm25s
    return module
