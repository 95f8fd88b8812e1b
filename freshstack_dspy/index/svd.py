"""The principal directions of a term matrix, the same on every machine."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_DENSE_BELOW = 2560
_TIE = 1e-6
_NEGLIGIBLE = 1e-4


def principal_directions(matrix: "csr_matrix", dimensions: int) -> NDArray[np.float64]:
    """Give the leading right singular vectors of a sparse matrix.

    The result is the exact truncated SVD (ARPACK to machine precision), not a randomized sketch:
    that would depend on a random stream and on how far it has converged.
    Directions whose singular value is tied with the first one cut off are left out with it, for
    which vectors span a part of a tie is chance; so are those that carry next to nothing.

    Args:
        matrix: Shape (rows, columns).
        dimensions: How many directions to give at most.

    Returns:
        Shape (columns, directions), orthonormal columns; no direction where nothing is left.
    """
    if min(matrix.get_shape()) <= max(_DENSE_BELOW, 2 * dimensions + 2):
        values, vectors = _dense(matrix)
    else:
        values, vectors = _arpack(matrix, dimensions + 1)
    first_cut = values[dimensions] if len(values) > dimensions else 0.0
    least = max(first_cut * (1 + _TIE), values[0] * _NEGLIGIBLE)
    kept = int(np.count_nonzero(values[:dimensions] > least))
    return vectors[:, :kept]


def _arpack(matrix: "csr_matrix", count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.sparse.linalg import svds

    start = np.random.RandomState(0).standard_normal(min(matrix.get_shape()))
    found: Any = svds(matrix, k=count, v0=start, tol=0, solver="arpack")
    _, values, rows = found
    order = np.argsort(-values, kind="stable")
    return values[order], rows[order].T


def _dense(matrix: "csr_matrix") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Decompose by the smaller of the two Gram matrices."""
    rows, columns = matrix.get_shape()
    wide = rows < columns
    gram = (matrix @ matrix.T if wide else matrix.T @ matrix).toarray()
    squares, vectors = np.linalg.eigh(gram)
    values, vectors = np.sqrt(np.maximum(squares[::-1], 0)), vectors[:, ::-1]
    if wide:
        vectors = (matrix.T @ vectors) / np.where(values > 0, values, 1)
    return values, vectors
