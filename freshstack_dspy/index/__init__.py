"""The hybrid index of a corpus: words and vectors over the same chunks, and their fusion."""

from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.models import Embedder, Models, Reranker
from freshstack_dspy.index.storage import IndexedFile

__all__ = [
    "Embedder",
    "HybridIndex",
    "IndexedFile",
    "Models",
    "Reranker",
    "fuse",
]
