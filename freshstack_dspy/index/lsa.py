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

from freshstack_dspy.index.svd import principal_directions
from freshstack_dspy.index.term_rows import TermRows
from freshstack_dspy.terms import terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_FEATURES = 50_000
"""Terms that count: those in the most chunks."""
FIT_SAMPLE = 10_000
"""Chunks the directions are fitted on, evenly spaced over the corpus: a fit on twice as many takes
longer and finds no more."""
_NO_LENGTH = 1e-9


class LsaModel(NamedTuple):
    """A fitted embedder."""

    features: dict[str, int]
    """Each term's column."""
    idf: NDArray[np.float64]
    """Shape (features,)."""
    directions: NDArray[np.float32]
    """Shape (features, dimensions)."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Embed texts.

        Returns:
            Shape (texts, dimensions); rows of length 1, or 0 where no term is known.
        """
        rows = [
            [self.features[term] for term in terms(text) if term in self.features] for text in texts
        ]
        return self.embed_counts(_count(rows, len(self.features)))

    def embed_counts(self, counts: "csr_matrix") -> NDArray[np.float64]:
        """Embed texts given as counts of the features, shape (texts, features)."""
        used = np.unique(counts.indices)
        weights = _weigh(counts[:, used], self.idf[used])
        with _one_thread():
            vectors = np.asarray(weights @ self.directions[used].astype(np.float64))
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.where(lengths > _NO_LENGTH, vectors / np.maximum(lengths, _NO_LENGTH), 0.0)

    def save(self, folder: Path) -> None:
        """Write JSON and plain arrays into a folder."""
        folder.mkdir()
        (folder / "features.json").write_text(
            json.dumps(list(self.features), ensure_ascii=False), encoding="utf-8"
        )
        np.save(folder / "idf.npy", self.idf, allow_pickle=False)
        np.save(folder / "directions.npy", self.directions, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; nothing is unpickled."""
        names = json.loads((folder / "features.json").read_text(encoding="utf-8"))
        return cls(
            features={term: column for column, term in enumerate(names)},
            idf=np.load(folder / "idf.npy", allow_pickle=False),
            directions=np.load(folder / "directions.npy", allow_pickle=False),
        )


class Fitted(NamedTuple):
    """A model with the vectors of the corpus it was fitted on."""

    model: LsaModel
    vectors: NDArray[np.float32]
    """Shape (chunks, dimensions)."""


def fit_lsa(corpus: TermRows, dimensions: int) -> Fitted:
    """Fit a model on a corpus and embed the corpus with it.

    Which chunks are pooled decides which prompts are sent, and recorded replies are found by their
    prompts; so the scores must come out the same on every machine. Hence double precision, one
    thread (a sum's last digits depend on how it is split), the converged decomposition, and
    scores that are rounded before they are ranked.

    Args:
        corpus: At least one row and one term.
        dimensions: Of the vectors, at most; a small corpus has fewer.
    """
    counts = _count(corpus.rows, len(corpus.vocabulary))
    chunks_with = np.bincount(counts.indices, minlength=len(corpus.vocabulary))
    kept = np.sort(np.argsort(-chunks_with, kind="stable")[:MAX_FEATURES])
    counts = counts[:, kept]
    size = len(corpus.rows)
    idf = np.log((1 + size) / (1 + chunks_with[kept])) + 1
    sample_size = min(size, FIT_SAMPLE)
    sample = counts[np.arange(sample_size) * size // sample_size]
    with _one_thread():
        directions = principal_directions(_weigh(sample, idf), dimensions)
    if directions.shape[1] == 0:
        directions = np.zeros((len(kept), 1))
    names = list(corpus.vocabulary)
    features = {names[number]: column for column, number in enumerate(kept)}
    model = LsaModel(features, idf, directions.astype(np.float32))
    vectors = model.embed_counts(counts)
    return Fitted(model, vectors.astype(np.float32))


def _count(rows: Sequence[Sequence[int]], width: int) -> "csr_matrix":
    """Count the numbers in each row; shape (rows, width)."""
    from scipy.sparse import csr_matrix

    starts = np.cumsum([0, *map(len, rows)])
    columns = np.fromiter((number for row in rows for number in row), np.int64, int(starts[-1]))
    counts = csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(rows), width))
    counts.sum_duplicates()
    return counts


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
