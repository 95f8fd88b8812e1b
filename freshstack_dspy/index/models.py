"""The models that embed and rerank: what an index asks of them, and those of a configuration."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.embedders import FolderEmbedder, HostedEmbedder
from freshstack_dspy.index.rerankers import FolderReranker, HostedReranker
from freshstack_dspy.lm.vectors import Access, Recording


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
        """Embed what is searched: shape (texts, dimensions), rows of any length, none NaN."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for: shape (texts, dimensions)."""
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
        """Score each passage, in the given order; higher is better."""
        ...


class Models(NamedTuple):
    """The models that an index is searched with, next to its own `bm25` and `lsa`."""

    embedders: Sequence[Embedder] = ()
    reranker: Reranker | None = None
    rerank_depth: int = 50
    """How many chunks of the hybrid ranking are scored anew; no others are found."""


NO_MODELS = Models()


def is_recorded(embedder: Embedder) -> bool:
    """Whether an embedder's vectors are recorded replies, which decide, and not an index's copy."""
    return isinstance(embedder, Recording)


@contextmanager
def connected(config: BuildConfig, access: Access) -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, and close them at the end."""
    with ExitStack() as opened:
        embedders = []
        for embedder in config.embedder:
            embedders.append(
                HostedEmbedder(embedder, access)
                if embedder.path is None
                else FolderEmbedder(embedder)
            )
            opened.callback(embedders[-1].close)
        if config.reranker is None:
            yield Models(embedders)
            return
        reranker = (
            HostedReranker(config.reranker, access)
            if config.reranker.path is None
            else FolderReranker(config.reranker)
        )
        opened.callback(reranker.close)
        yield Models(embedders, reranker, config.reranker.depth)
