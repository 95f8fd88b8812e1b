"""The terms of a corpus, counted: what both `bm25` and `lsa` are made from."""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.index.arrays import load_array, save_array
from freshstack_dspy.records import Chunk
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_AT_ONCE = 1000


def indexed_text(chunk: Chunk) -> str:
    """What a chunk is found by: its path, for names of files and folders tell much, its title and its text."""
    return f"{chunk.path}\n{chunk.titled}"


class TermCounts(NamedTuple):
    """How often each term stands in each row."""

    vocabulary: dict[str, int]
    """Each term's number."""
    counts: "csr_matrix"
    """Shape (rows, terms), of int32, columns in order within each row."""

    @classmethod
    def of(
        cls,
        chunks: Sequence[Chunk],
        progress: Callable[[float], None] = lambda _fraction: None,
        known: dict[str, int] | None = None,
    ) -> Self:
        """Cut the chunks' indexed texts into terms and count these.

        Args:
            chunks: The rows.
            progress: Told the fraction done, now and then.
            known: Numbers to go on from; not changed.
        """
        vocabulary = dict(known or {})
        blocks = []
        for start in range(0, len(chunks), _AT_ONCE):
            progress(start / len(chunks))
            blocks.append(_count(chunks[start : start + _AT_ONCE], vocabulary))
        return cls(vocabulary, _stacked(blocks, len(vocabulary)))

    def merged(self, new: "TermCounts", sources: NDArray[np.intp]) -> "TermCounts":
        """Make the counts of other rows, of which some stand here.

        Args:
            new: Counts with a vocabulary that goes on from this one.
            sources: For each row its place here, or -1: then it is the next one of `new`.
        """
        fresh = sources < 0
        places = np.where(fresh, len(self) + np.cumsum(fresh) - 1, sources)
        stacked = _stacked([self.counts, new.counts], len(new.vocabulary))
        return TermCounts(new.vocabulary, stacked[places])

    def __len__(self) -> int:
        return int(self.counts.get_shape()[0])

    def used(self) -> "TermCounts":
        """Leave out terms that stand in no row."""
        stands = np.bincount(self.counts.indices, minlength=len(self.vocabulary)) > 0
        if stands.all():
            return self
        numbers = np.cumsum(stands) - 1
        names = (term for term, number in self.vocabulary.items() if stands[number])
        columns = numbers[self.counts.indices]
        return TermCounts(
            {term: number for number, term in enumerate(names)},
            _matrix(self.counts.data, columns, self.counts.indptr, int(stands.sum())),
        )

    def save(self, folder: Path) -> None:
        """Write the counts into a folder; the vocabulary is written by the lexical index."""
        save_array(folder / "counts.npy", self.counts.data.astype(np.int32, copy=False))
        save_array(folder / "count_terms.npy", self.counts.indices.astype(np.int32, copy=False))
        save_array(folder / "count_ends.npy", self.counts.indptr.astype(np.int64, copy=False))

    @classmethod
    def load(cls, folder: Path, vocabulary: dict[str, int]) -> Self:
        """Read what `save` wrote; nothing is unpickled.

        Raises:
            OSError, ValueError: A file is missing or damaged.
        """
        counts = _matrix(
            load_array(folder / "counts.npy", np.int32),
            load_array(folder / "count_terms.npy", np.int32),
            load_array(folder / "count_ends.npy", np.int64),
            len(vocabulary),
        )
        counts.check_format(full_check=True)
        return cls(vocabulary, counts)


def _count(chunks: Sequence[Chunk], vocabulary: dict[str, int]) -> "csr_matrix":
    from scipy.sparse import csr_matrix

    numbers, ends = array("i"), [0]
    for chunk in chunks:
        numbers.extend(
            [vocabulary.setdefault(term, len(vocabulary)) for term in terms(indexed_text(chunk))]
        )
        ends.append(len(numbers))
    columns = np.frombuffer(numbers, np.int32) if numbers else np.empty(0, np.int32)
    shape = (len(chunks), max(1, len(vocabulary)))
    counts = csr_matrix((np.ones(len(columns), np.int32), columns, np.array(ends)), shape=shape)
    counts.sum_duplicates()
    return counts


def _stacked(blocks: Sequence["csr_matrix"], width: int) -> "csr_matrix":
    """Put blocks of rows below each other; later ones may have more columns."""
    sizes = [np.diff(block.indptr) for block in blocks]
    return _matrix(
        np.concatenate([block.data for block in blocks] or [np.empty(0, np.int32)]),
        np.concatenate([block.indices for block in blocks] or [np.empty(0, np.int32)]),
        np.concatenate([[0], np.cumsum(np.concatenate(sizes or [[]]), dtype=np.int64)]),
        width,
    )


def _matrix(
    data: NDArray[Any], columns: NDArray[Any], ends: NDArray[Any], width: int
) -> "csr_matrix":
    from scipy.sparse import csr_matrix

    return csr_matrix((data, columns, ends), shape=(len(ends) - 1, width))
