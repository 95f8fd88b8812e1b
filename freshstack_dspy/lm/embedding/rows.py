"""The vectors of a list of texts as one matrix, filled as they come."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from freshstack_dspy.lm.embedding.figures import Figures

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Rows:
    """A row for each key; filled by many threads."""

    def __init__(self, keys: Iterable[str], progress: Callable[[float], None]) -> None:
        """Prepare; the first vector says how long all are.

        Args:
            keys: Of the rows, each once.
            progress: Told the fraction that is filled, by one thread at a time.
        """
        self._places = {key: place for place, key in enumerate(keys)}
        self._matrix: NDArray[Any] | None = None
        self._filled = 0
        self._progress = progress
        self._guard = threading.Lock()

    def fill(self, figures: Sequence[Figures]) -> None:
        """Fill in vectors, all of one length."""
        import numpy as np

        with self._guard:
            for one in figures:
                vector = one.array()
                if self._matrix is None:
                    self._matrix = np.empty((len(self._places), len(vector)), dtype=np.float32)
                self._matrix[self._places[one.key]] = vector
            self._filled += len(figures)
            self._progress(self._filled / len(self._places))

    def of(self, keys: Sequence[str]) -> "NDArray[Any]":
        """The rows of these keys, which may repeat: shape (keys, dimensions)."""
        import numpy as np

        if self._matrix is None:
            return np.empty((0, 0), dtype=np.float32)
        places = [self._places[key] for key in keys]
        if places == list(range(len(self._matrix))):
            return self._matrix
        return self._matrix[places]
