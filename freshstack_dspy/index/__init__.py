"""The hybrid index of a corpus: words and vectors over the same chunks, and their fusion."""
