"""The lengths of a collection's chunks, read when one of them is first asked for."""

from collections.abc import Iterator, Mapping

from freshstack_dspy.collection.corpus import Corpus


class ChunkLengths(Mapping[str, int]):
    """The length in tokens of every chunk of a corpus that has a text, by chunk id.

    Few measures need it, so the corpus is read only if one of them does.

    Args:
        corpus: The chunks.

    Raises:
        CollectionError: When something is asked: the corpus is missing, damaged or not that of the
            manifest.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        return self._corpus.lengths[chunk_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.lengths)

    def __len__(self) -> int:
        return len(self._corpus.lengths)

    def __repr__(self) -> str:
        """Say what it is and read nothing: the qrels that hold it are printed in tests."""
        return "ChunkLengths(...)"
