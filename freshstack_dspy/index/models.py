"""What an index asks of the models that embed and rerank; who they are is in the folders below."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.lm.vectors import Recording


class Embedder(Protocol):
    """A model that gives texts vectors; the index compares these by their cosine."""

    @property
    def name(self) -> str:
        """Of the retriever, and of the column of vectors."""
        ...

    @property
    def identity(self) -> str:
        """Everything its vectors depend on; another identity, and all chunks are embedded again."""
        ...

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched: shape (texts, dimensions), rows of any length, none NaN.

        Raises:
            FreshstackError: Some text has no vector.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for: shape (texts, dimensions).

        Raises:
            FreshstackError: Some text has no vector.
        """
        ...


class Reranker(Protocol):
    """A model that scores passages for a text, each by itself."""

    @property
    def at_once(self) -> int:
        """How many texts it may be asked about at the same time, by threads."""
        ...

    @property
    def identity(self) -> str:
        """Everything its scores depend on."""
        ...

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order; higher is better.

        Raises:
            FreshstackError: Some passage has no score.
        """
        ...


def is_recorded(embedder: Embedder) -> bool:
    """Whether an embedder's vectors are recorded replies, which decide, and not an index's copy."""
    return isinstance(embedder, Recording)
