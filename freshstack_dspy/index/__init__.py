"""The hybrid index of a corpus: words and vectors over the same rows, and their fusion."""

from freshstack_dspy.index.difference import Difference
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.models import Embedder, Reranker
from freshstack_dspy.index.searching import Models
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.index.stats import IndexStats

__all__ = [
    "Difference",
    "Embedder",
    "HybridIndex",
    "IndexSettings",
    "IndexStats",
    "IndexedFile",
    "Models",
    "Reranker",
    "fuse",
]
