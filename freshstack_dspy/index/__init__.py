"""The hybrid index of a corpus: words and latent meanings over the same rows, and their fusion."""

from freshstack_dspy.index.fusion import fuse_normalised_sum
from freshstack_dspy.index.hybrid import HybridIndex

__all__ = ["HybridIndex", "fuse_normalised_sum"]
