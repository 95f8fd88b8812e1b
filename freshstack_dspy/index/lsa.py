"""Latent semantic analysis: vectors of a corpus's own making, offline and without weights.

TF-IDF with sublinear term frequency, projected onto the leading singular vectors of the corpus and
normalised to length 1 (Deerwester et al., 1990).
"""

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.lexical import CorpusTerms
from freshstack_dspy.index.ranking import unit_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_FEATURES = 50_000
"""Terms that count: those in the most chunks."""
FIT_SAMPLE = 4_000
"""Chunks that the directions are fitted on, evenly spaced over the corpus."""
MOST_CHUNKS = 200_000
"""It is made of: the counts of all chunks are in memory."""
VECTORS = "vectors.npy"
"""In the folder of a model: those of the corpus."""
_NEGLIGIBLE = 1e-4
"""Directions of a singular value below this share of the largest are left out."""
_ROWS_AT_ONCE = 4_096


class LsaModel(NamedTuple):
    """A fitted embedder."""

    features: dict[str, int]
    """Each term's column."""
    idf: NDArray[np.float64]
    """Shape (features,)."""
    directions: NDArray[np.float32]
    """Shape (features, dimensions)."""

    def embed(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Embed texts, which are given as their terms: shape (texts, dimensions), rows of length 1.

        Those without a known term have the length 0.
        """
        from scipy.sparse import csr_array

        columns = [
            [self.features[term] for term in text if term in self.features] for text in texts
        ]
        ends = np.cumsum([0, *map(len, columns)])
        flat = np.fromiter(chain.from_iterable(columns), np.int32, int(ends[-1]))
        counts = csr_array((np.ones(len(flat)), flat, ends), (len(texts), len(self.features)))
        counts.sum_duplicates()
        return self.embed_counts(counts)

    def embed_counts(self, counts: "csr_array") -> NDArray[np.float64]:
        """Embed rows of counts of the features."""
        used = np.unique(counts.indices)
        weights = _weighed(counts[:, used], self.idf[used])
        vectors = np.asarray(weights @ self.directions[used].astype(np.float64))
        return unit_rows(vectors, "lsa", len(vectors))

    def save(self, folder: Path, vectors: NDArray[np.float32]) -> None:
        """Write JSON and plain arrays into a folder, and there the vectors of the corpus."""
        folder.mkdir()
        (folder / "features.json").write_text(json.dumps(list(self.features)), encoding="utf-8")
        np.save(folder / "idf.npy", self.idf)
        np.save(folder / "directions.npy", self.directions)
        np.save(folder / VECTORS, vectors)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; the directions are mapped into memory."""
        names = json.loads((folder / "features.json").read_text(encoding="utf-8"))
        return cls(
            features={term: column for column, term in enumerate(names)},
            idf=np.load(folder / "idf.npy"),
            directions=np.load(folder / "directions.npy", mmap_mode="r"),
        )


def fit_lsa(
    corpus: CorpusTerms, dimensions: int, report: Callable[[float], None]
) -> tuple[LsaModel, NDArray[np.float32]]:
    """Fit a model on a corpus, and embed the corpus: shape (rows, dimensions), length 1 or 0.

    The singular vectors are the converged ones of ARPACK from a fixed start, on one thread: the
    same bytes on the same machine, and the same up to the last digits on all.
    A small corpus has fewer dimensions.
    """
    import scipy.sparse.linalg  # noqa: F401 - a BLAS of its own: only what is loaded is limited
    from threadpoolctl import threadpool_limits

    counts = corpus.counts
    size = corpus.rows
    rows_with = np.bincount(counts.indices, minlength=len(corpus.vocabulary))
    # Terms in alphabetical order: the sums below depend, in their last digits, on the order.
    common = sorted(corpus.vocabulary.items(), key=lambda item: (-rows_with[item[1]], item[0]))
    chosen = sorted(common[:MAX_FEATURES])
    columns = np.array([number for _, number in chosen])
    counts = counts[:, columns]
    counts.sort_indices()
    idf = np.log((1 + size) / (1 + rows_with[columns])) + 1
    sample_size = min(size, FIT_SAMPLE)
    sample = np.arange(sample_size) * size // sample_size
    report(0.1)
    with threadpool_limits(limits=1):
        weights = _weighed(counts[sample], idf)
        directions = _directions(weights, dimensions)
        report(0.8)
        features = {term: column for column, (term, _) in enumerate(chosen)}
        model = LsaModel(features, idf, directions)
        vectors = np.empty((size, directions.shape[1]), np.float32)
        for start in range(0, size, _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            vectors[block] = model.embed_counts(counts[block])
            report(0.8 + 0.2 * min(1.0, (start + _ROWS_AT_ONCE) / size))
    return model, vectors


def _directions(weights: "csr_array", dimensions: int) -> NDArray[np.float32]:
    """The leading right singular vectors, shape (columns, directions)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows, columns = (int(size) for size in weights.shape or ())
    transposed = weights.T.tocsr()
    if min(rows, columns) <= 2 * dimensions:  # ARPACK is for a few of many
        squares, left = np.linalg.eigh((weights @ transposed).toarray())
    else:
        operator: Any = LinearOperator
        squares, left = eigsh(
            operator(
                (rows, rows), matvec=lambda vector: weights @ (transposed @ vector), dtype=float
            ),
            k=dimensions,
            v0=np.random.RandomState(0).uniform(-1, 1, rows),
            ncv=min(rows, dimensions * 3 // 2 + 20),
        )
    order = np.argsort(-squares, kind="stable")[:dimensions]
    order = order[squares[order] > squares.max() * _NEGLIGIBLE**2]
    right = (transposed @ left[:, order]) / np.sqrt(squares[order])
    return np.ascontiguousarray(right, np.float32)


def _weighed(counts: "csr_array", idf: NDArray[np.float64]) -> "csr_array":
    """Turn counts into TF-IDF rows of length 1: (1 + ln tf) · idf."""
    from scipy.sparse import csr_array

    data = (1 + np.log(counts.data)) * idf[counts.indices]
    weights = csr_array((data, counts.indices, counts.indptr), shape=counts.shape)
    lengths = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    per_value = np.repeat(np.where(lengths > 0, lengths, 1), np.diff(weights.indptr))
    weights.data /= per_value
    return weights
