"""The terms of a corpus, and BM25 over them by bm25s."""

import logging
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from freshstack_dspy.config import K1, B
from freshstack_dspy.corpus.parquet import chunks_in
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import RowScore, best_rows
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.records import Chunk
from freshstack_dspy.text import cut_words, spaced, terms

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa
    from bm25s import BM25
    from scipy.sparse import csr_array

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
    """The terms of each row of a corpus, or of a part of it, counted."""

    counts: "csr_array"
    """How often each row has each term: shape (rows, terms), of integers."""
    vocabulary: dict[str, int]
    """Each term's number, in the order in which they first come."""

    @classmethod
    def of(cls, parts: Iterable[Self]) -> Self:
        """Put the terms of parts of a corpus together."""
        from scipy.sparse import csr_array, vstack

        parts = [*parts]
        if len(parts) == 1:
            return parts[0]
        vocabulary: dict[str, int] = {}
        arrays = []
        for part in parts:
            numbers = (vocabulary.setdefault(term, len(vocabulary)) for term in part.vocabulary)
            columns = np.fromiter(numbers, np.int32, len(part.vocabulary))
            arrays.append((part.counts.data, columns[part.counts.indices], part.counts.indptr))
        shapes = ((len(ends) - 1, len(vocabulary)) for *_, ends in arrays)
        stacked = csr_array(vstack([*map(csr_array, arrays, shapes)], format="csr"))
        return cls(stacked, vocabulary)

    @property
    def rows(self) -> int:
        """How many chunks there are."""
        return len(self.counts.indptr) - 1


def terms_of(chunk: Chunk, languages: tuple[str, ...] = ENGLISH) -> list[str]:
    """The terms of what a chunk is found by, in its language, or in all of the index."""
    return terms(indexed_text(chunk), _own(chunk, languages))


def _own(chunk: Chunk, languages: tuple[str, ...]) -> tuple[str, ...]:
    return (chunk.language,) if chunk.language in languages else languages


def cut_batches(
    batches: Iterable["pa.RecordBatch"], languages: tuple[str, ...] = ENGLISH
) -> CorpusTerms:
    """Count the terms of what each chunk of some batches is found by."""
    chunks = list(chain.from_iterable(map(chunks_in, batches)))
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, chunk in enumerate(chunks):
        rows.setdefault(_own(chunk, languages), []).append(row)
    corpus = CorpusTerms.of(
        count_terms([indexed_text(chunks[row]) for row in some], own) for own, some in rows.items()
    )
    if len(rows) == 1:
        return corpus
    order = np.argsort(list(chain.from_iterable(rows.values())))
    return corpus._replace(counts=corpus.counts[order])


def count_terms(texts: Iterable[str], languages: tuple[str, ...] = ENGLISH) -> CorpusTerms:
    """Count the terms of texts; a word is cut once, however often it comes."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from scipy.sparse import csr_array

    def matrix(columns: Any, ends: Any, width: int) -> csr_array:
        return csr_array((np.ones(len(columns), np.int32), columns, ends), (len(ends) - 1, width))

    rows = [*map(spaced, texts)]
    buffers = (np.cumsum([0, *map(len, rows)], dtype=np.int32), b"".join(rows))
    lines = pa.StringArray.from_buffers(len(rows), *map(pa.py_buffer, buffers))
    words = pc.call_function("ascii_split_whitespace", [lines])
    encoded = words.values.dictionary_encode()
    cut, ends = cut_words(encoded.dictionary.to_pylist(), languages)
    vocabulary = {term: number for number, term in enumerate(dict.fromkeys(cut))}
    columns = [*map(vocabulary.__getitem__, cut)]
    of_rows = matrix(np.from_dlpack(encoded.indices), np.from_dlpack(words.offsets), len(ends))
    of_words = matrix(columns, [0, *ends], len(vocabulary))
    return CorpusTerms(of_rows @ of_words, vocabulary)


class LexicalIndex:
    """BM25 as Lucene defines it (Kamphuis et al., ECIR 2020), with exact document lengths.

    score(q, d) = Σ over the terms t of q, repetitions counted, of
    ln(1 + (N - df + .5) / (df + .5)) · tf / (tf + k1 · (1 - b + b · |d| / average |d|))
    """

    def __init__(self, model: "BM25") -> None:
        self._model = model

    @classmethod
    def build(cls, corpus: CorpusTerms, k1: float = K1, b: float = B) -> Self:
        """Score each term in each row, all at once."""
        rows = corpus.rows
        if not corpus.vocabulary:
            raise IndexingError(f"none of the {rows} chunks holds a word to find it by")
        lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
        by_term = corpus.counts.tocsc()
        with_term = np.diff(by_term.indptr)
        idf = np.zeros(int(with_term.max()) + 1)
        for df in np.unique(with_term[with_term > 0]).tolist():
            idf[df] = math.log(1 + (rows - df + 0.5) / (df + 0.5))
        norms = k1 * ((1 - b) + b * lengths / lengths.mean())
        frequencies = by_term.data.astype(np.float64)
        parts = frequencies / (norms[by_term.indices] + frequencies)
        model = _bm25s().BM25(k1=k1, b=b, method="lucene", dtype="float64", backend="numpy")
        model.scores = {
            "data": np.repeat(idf[with_term], with_term) * parts,
            "indices": by_term.indices.astype(np.int32),
            "indptr": by_term.indptr.astype(np.int64),
            "num_docs": rows,
        }
        model.vocab_dict, model.nonoccurrence_array = corpus.vocabulary, None
        return cls(model)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        self._model.save(folder, allow_pickle=False, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; the arrays are mapped into memory."""
        model = _bm25s().BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False)
        for name in (
            "data",
            "indices",
            "indptr",
        ):  # a slice of NumPy's class for it takes ten times
            model.scores[name] = np.asarray(model.scores[name])
        return cls(model)

    def frequency(self, term: str) -> int:
        """How many rows have a term."""
        number = self._model.vocab_dict.get(term)
        if number is None:
            return 0
        starts = self._model.scores["indptr"]  # each term's scores, one for each row that has it
        return int(starts[number + 1] - starts[number])

    def search(self, texts: Sequence[Sequence[str]], depth: int) -> list[list[RowScore]]:
        """Rank rows for texts, which are given as their terms; one without a known term finds nothing."""
        numbers = self._model.vocab_dict
        rankings: list[list[RowScore]] = []
        for text in texts:
            term_numbers = sorted(numbers[term] for term in text if term in numbers)
            scores = self._model.get_scores_from_ids(term_numbers) if term_numbers else np.zeros(0)
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
