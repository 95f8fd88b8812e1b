"""The lexical half of the index: BM25 over the terms of prose and code, by bm25s."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.arrays import load_array
from freshstack_dspy.index.ranking import RowScore, best_rows
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from bm25s import BM25

K1, B = 1.2, 0.75
"""Lucene's defaults. On SciFact and on search for functions by their docstrings they are better
than Anserini's .9 and .4."""
_VOCABULARY_FILE = "vocab.index.json"


class LexicalIndex:
    """BM25 as Lucene defines it (Kamphuis et al., ECIR 2020), with exact document lengths.

    score(q, d) = Σ over the terms t of q, repetitions counted, of
    ln(1 + (N - df + .5) / (df + .5)) · tf / (tf + k1 · (1 - b + b · |d| / average |d|))

    On disk it is an index of bm25s, whose own `BM25.load` reads it.
    """

    def __init__(
        self, scores: dict[str, NDArray[np.generic] | int], vocabulary: dict[str, int] | Path
    ) -> None:
        self._scores = scores
        self._vocabulary = vocabulary

    def __len__(self) -> int:
        size = self._scores["num_docs"]
        assert isinstance(size, int)
        return size

    @classmethod
    def build(cls, corpus: TermCounts) -> Self:
        """Score each term in each row of a corpus of at least one row and one term."""
        columns = corpus.counts.tocsc()
        size = len(corpus)
        lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
        rows_with = np.diff(columns.indptr)
        idf = np.log(1 + (size - rows_with + 0.5) / (rows_with + 0.5))
        norms = K1 * (1 - B + B * lengths / (lengths.sum() / size))
        frequencies = columns.data.astype(np.float64)
        scores = {
            "data": np.repeat(idf, rows_with)
            * frequencies
            / (frequencies + norms[columns.indices]),
            "indices": columns.indices.astype(np.int32, copy=False),
            "indptr": columns.indptr.astype(np.int64),
            "num_docs": size,
        }
        return cls(scores, corpus.vocabulary)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        self._model.vocab_dict = self.vocabulary
        self._model.save(folder, allow_pickle=False, show_progress=False)

    @classmethod
    def load(cls, folder: Path, size: int) -> Self:
        """Read what `save` wrote; nothing is unpickled, and most is read when it is used.

        Raises:
            OSError, ValueError: A file is missing, damaged or of another size.
        """
        data = load_array(folder / "data.csc.index.npy", np.float64)
        ends = load_array(folder / "indptr.csc.index.npy", np.int64)
        rows = load_array(folder / "indices.csc.index.npy", np.int32, data.shape)
        if data.ndim != 1 or ends.ndim != 1 or ends[-1] != len(data):
            raise ValueError("the scores and their places do not fit")
        if not (folder / _VOCABULARY_FILE).is_file():
            raise ValueError(f"{_VOCABULARY_FILE} is missing")
        return cls(
            {"data": data, "indices": rows, "indptr": ends, "num_docs": size},
            folder / _VOCABULARY_FILE,
        )

    @property
    def vocabulary(self) -> dict[str, int]:
        """Each term's number.

        Raises:
            OSError, ValueError: The file that holds it is damaged.
        """
        if isinstance(self._vocabulary, Path):
            found = _bm25s().utils.json_functions.loads(self._vocabulary.read_bytes())
            terms_scored = self._scores["indptr"]
            assert isinstance(terms_scored, np.ndarray)
            if not isinstance(found, dict) or len(found) != len(terms_scored) - 1:
                raise ValueError(f"{_VOCABULARY_FILE} does not fit the scores")
            self._vocabulary = found
        return self._vocabulary

    def search(
        self, texts: Sequence[str], depth: int, mask: NDArray[np.bool_] | None = None
    ) -> list[list[RowScore]]:
        """Rank rows for each text; a text without a known term finds nothing.

        Args:
            texts: What to search for.
            depth: How many rows to give at most.
            mask: The rows that may be found, shape (rows,); by default all.
        """
        return [self._search_one(text, depth, mask) for text in texts]

    def _search_one(self, text: str, depth: int, mask: NDArray[np.bool_] | None) -> list[RowScore]:
        numbers = self.vocabulary
        known = Counter(numbers[term] for term in terms(text) if term in numbers)
        if not known:
            return []
        scores = self._scored(known)
        if mask is not None:
            scores[~mask] = 0
        return best_rows(scores, depth)

    def _scored(self, query: Mapping[int, int]) -> NDArray[np.float64]:
        """Score all rows; a term that is repeated in the query is looked up once."""
        once = [number for number, count in query.items() if count == 1]
        scores: NDArray[np.float64] = self._model.get_scores_from_ids(once)
        data, rows, ends = (self._model.scores[key] for key in ("data", "indices", "indptr"))
        for number, count in query.items():
            if count > 1:
                places = slice(ends[number], ends[number + 1])
                np.add.at(scores, rows[places], count * data[places])
        return scores

    @cached_property
    def _model(self) -> "BM25":
        model = _bm25s().BM25(k1=K1, b=B, method="lucene", dtype="float64", backend="numpy")
        model.scores = self._scores
        model.nonoccurrence_array = None
        return model


def _bm25s() -> ModuleType:
    """Import bm25s without the debugging messages that it turns on for the whole program."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    module: ModuleType = bm25s
    return module
