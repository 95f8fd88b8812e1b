"""Latent semantic analysis: vectors of a corpus's own making, offline and without weights.

TF-IDF with sublinear term frequency, projected onto the leading singular vectors of the corpus and
normalised to length 1 (Deerwester et al., 1990).
"""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.arrays import load_array, save_array
from freshstack_dspy.index.rows import Digests, as_bytes
from freshstack_dspy.index.svd import principal_directions
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_FEATURES = 50_000
"""Terms that count: those in the most chunks."""
FIT_SAMPLE = 10_000
"""Chunks the directions are fitted on, evenly spaced over the corpus: a fit on twice as many takes
longer and finds no more."""
_NO_LENGTH = 1e-9
_ROWS_AT_ONCE = 16_384


class LsaModel(NamedTuple):
    """A fitted embedder."""

    features: dict[str, int]
    """Each term's column."""
    idf: NDArray[np.float64]
    """Shape (features,)."""
    directions: NDArray[np.float32]
    """Shape (features, dimensions)."""
    fitted_on: str
    """The fingerprint of the index it was fitted for."""
    fitted_rows: Digests
    """Of the chunks of that index."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Embed texts.

        Returns:
            Shape (texts, dimensions); rows of length 1, or 0 where no term is known.
        """
        from scipy.sparse import csr_matrix

        rows = [
            [self.features[term] for term in terms(text) if term in self.features] for text in texts
        ]
        ends = np.cumsum([0, *map(len, rows)])
        columns = np.fromiter((number for row in rows for number in row), np.int64, int(ends[-1]))
        counts = csr_matrix(
            (np.ones(len(columns)), columns, ends), shape=(len(rows), len(self.features))
        )
        counts.sum_duplicates()
        return self._embed_features(counts)

    def embed_counts(self, corpus: TermCounts) -> NDArray[np.float32]:
        """Embed rows of counted terms; shape (rows, dimensions)."""
        columns = self._columns(corpus.vocabulary)
        vectors = np.empty((len(corpus), self.directions.shape[1]), np.float32)
        for start in range(0, len(corpus), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            vectors[block] = self._embed_features(
                _selected(corpus.counts[block], columns, len(self.features))
            )
        return vectors

    def changed(self, digests: Digests) -> float:
        """Chunks that are not those it was fitted on, or the other way, as a share of the latter."""
        fitted = set(as_bytes(self.fitted_rows))
        return len(fitted.symmetric_difference(as_bytes(digests))) / max(1, len(fitted))

    def _columns(self, vocabulary: dict[str, int]) -> NDArray[np.intp]:
        """For each term of a vocabulary its feature, or -1."""
        columns = np.full(len(vocabulary), -1)
        for term, column in self.features.items():
            number = vocabulary.get(term)
            if number is not None:
                columns[number] = column
        return columns

    def _embed_features(self, counts: "csr_matrix") -> NDArray[np.float64]:
        """Embed texts given as counts of the features, shape (texts, features)."""
        used = np.unique(counts.indices)
        weights = _weigh(counts[:, used], self.idf[used])
        with _one_thread():
            vectors = np.asarray(weights @ self.directions[used].astype(np.float64))
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.where(lengths > _NO_LENGTH, vectors / np.maximum(lengths, _NO_LENGTH), 0.0)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        names = json.dumps([self.fitted_on, list(self.features)], ensure_ascii=False)
        (folder / "features.json").write_text(names, encoding="utf-8")
        save_array(folder / "idf.npy", self.idf)
        save_array(folder / "directions.npy", self.directions)
        save_array(folder / "fitted_rows.npy", self.fitted_rows)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; nothing is unpickled.

        Raises:
            OSError, ValueError: A file is missing or damaged, or they do not fit each other.
        """
        values = json.loads((folder / "features.json").read_text(encoding="utf-8"))
        fitted_on, names = map(values.__getitem__, range(2))
        model = cls(
            features={term: column for column, term in enumerate(names)},
            idf=load_array(folder / "idf.npy", np.float64, (len(names),)),
            directions=load_array(folder / "directions.npy", np.float32),
            fitted_on=fitted_on,
            fitted_rows=load_array(folder / "fitted_rows.npy", np.uint8),
        )
        if model.directions.ndim != 2 or len(model.directions) != len(names):
            raise ValueError("the features and their directions do not fit")
        return model


def fit_lsa(corpus: TermCounts, dimensions: int, fitted_on: str, digests: Digests) -> LsaModel:
    """Fit a model on a corpus.

    Which chunks are pooled decides which prompts are sent, and recorded replies are found by their
    prompts; so the scores must come out the same on every machine, and however the corpus was put
    together. Hence double precision, one thread (a sum's last digits depend on how it is split),
    terms in alphabetical order, the converged decomposition, and scores that are rounded before
    they are ranked.

    Args:
        corpus: At least one row and one term, the rows in the order of their ids.
        dimensions: Of the vectors, at most; a small corpus has fewer.
        fitted_on: The fingerprint of its index.
        digests: Of its rows.
    """
    rows_with = np.bincount(corpus.counts.indices, minlength=len(corpus.vocabulary))
    names = _most_common(corpus.vocabulary, rows_with)
    numbers = np.array([corpus.vocabulary[name] for name in names])
    columns = np.full(len(corpus.vocabulary), -1)
    columns[numbers] = np.arange(len(names))
    size = len(corpus)
    idf = np.log((1 + size) / (1 + rows_with[numbers])) + 1
    sample_size = min(size, FIT_SAMPLE)
    sample = corpus.counts[np.arange(sample_size) * size // sample_size]
    with _one_thread():
        weights = _weigh(_selected(sample, columns, len(names)), idf)
        directions = principal_directions(weights, dimensions)
    if directions.shape[1] == 0:
        directions = np.zeros((len(names), 1))
    features = {name: column for column, name in enumerate(names)}
    return LsaModel(features, idf, directions.astype(np.float32), fitted_on, digests)


def _most_common(vocabulary: dict[str, int], rows_with: NDArray[np.intp]) -> list[str]:
    """The terms in the most rows, ties by the alphabet; in alphabetical order."""
    least = 1
    if np.count_nonzero(rows_with) > MAX_FEATURES:
        least = int(np.partition(rows_with, -MAX_FEATURES)[-MAX_FEATURES])
    counted = rows_with.tolist()
    names = [term for term, number in vocabulary.items() if counted[number] >= least]
    names.sort(key=lambda term: (-counted[vocabulary[term]], term))
    return sorted(names[:MAX_FEATURES])


def _selected(counts: "csr_matrix", columns: NDArray[np.intp], width: int) -> "csr_matrix":
    """Renumber the columns of counts; those that are given -1 are left out."""
    from scipy.sparse import csr_matrix

    chosen = columns[counts.indices]
    kept = chosen >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
    selected = csr_matrix(
        (counts.data[kept].astype(np.float64), chosen[kept], ends),
        shape=(counts.get_shape()[0], width),
    )
    selected.sort_indices()
    return selected


def _weigh(counts: "csr_matrix", idf: NDArray[np.float64]) -> "csr_matrix":
    """Turn counts into TF-IDF rows of length 1: (1 + ln tf) · idf."""
    from scipy.sparse import csr_matrix, diags_array

    data = (1 + np.log(counts.data)) * idf[counts.indices]
    weights = csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape)
    lengths = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    return csr_matrix(diags_array(1 / np.where(lengths > 0, lengths, 1)) @ weights)


def _one_thread() -> AbstractContextManager[object]:
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits
