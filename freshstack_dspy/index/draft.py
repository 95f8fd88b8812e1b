"""The rows of an index to be, and which of them stand already."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.rows import (
    Digests,
    Rows,
    as_bytes,
    as_digests,
    content_sha256,
    digest_of,
    embedded_digest,
)
from freshstack_dspy.index.settings import IndexedFile
from freshstack_dspy.records import Chunk


class Draft(NamedTuple):
    """The rows of an index to be, in the order of their ids."""

    ids: Sequence[str]
    digests: Digests
    embedded: Digests
    tokens: NDArray[np.int64]
    file_numbers: NDArray[np.int32]
    files: Sequence[IndexedFile]
    sources: NDArray[np.intp]
    """For each row the one of equal digest in the index that stands, or -1."""
    given: Mapping[int, Chunk]
    """The chunks at hand, by row; those of the other rows stand."""

    @classmethod
    def of(cls, chunks: Sequence[Chunk], files: Sequence[IndexedFile]) -> Self:
        """Draft an index of these chunks.

        Args:
            chunks: All, in any order.
            files: Of all chunks, or none.

        Raises:
            IndexingError: Two chunks have one id, or one is of a file that is not told.
        """
        rows = sorted(chunks, key=lambda chunk: chunk.chunk_id)
        ids = [chunk.chunk_id for chunk in rows]
        _check_twins(ids)
        files = sorted(files)
        numbers = file_numbers(files)
        contents = [content_sha256(chunk) for chunk in rows]
        digests = list(map(digest_of, rows, contents))
        return cls(
            ids=ids,
            digests=as_digests(digests),
            embedded=as_digests(list(map(embedded_digest, rows, contents))),
            tokens=np.array([chunk.tokens for chunk in rows], np.int64),
            file_numbers=np.array(
                [_number(chunk, numbers) if files else -1 for chunk in rows], np.int32
            ),
            files=files,
            sources=np.full(len(rows), -1, np.intp),
            given=dict(enumerate(rows)),
        )

    def against(self, standing: Rows) -> "Draft":
        """Find which rows stand."""
        known = {digest: row for row, digest in enumerate(as_bytes(standing.digests))}
        found = [known.get(digest, -1) for digest in as_bytes(self.digests)]
        return self._replace(sources=np.array(found, np.intp))

    def beside(self, standing: Rows, kept: NDArray[np.intp]) -> "Draft":
        """Draft an index of these rows and of some that stand.

        Args:
            standing: The rows that stand.
            kept: Those of them that stay, all from files of this draft.

        Raises:
            IndexingError: Two chunks have one id.
        """
        ids = [*self.ids, *(standing.ids[row] for row in kept.tolist())]
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.intp)
        _check_twins([ids[place] for place in order])
        numbers = file_numbers(self.files)
        of_old = np.array([numbers.get((file.source, file.path), -1) for file in standing.files])
        of_kept = of_old[standing.file_numbers[kept]].astype(np.int32)
        return Draft(
            ids=[ids[place] for place in order],
            digests=np.concatenate([self.digests, standing.digests[kept]])[order],
            embedded=np.concatenate([self.embedded, standing.embedded[kept]])[order],
            tokens=np.concatenate([self.tokens, standing.tokens[kept]])[order],
            file_numbers=np.concatenate([self.file_numbers, of_kept])[order],
            files=self.files,
            sources=np.concatenate([self.sources, kept])[order],
            given={
                row: self.given[place]
                for row, place in enumerate(order.tolist())
                if place < len(self.ids)
            },
        )

    def file_hash(self, row: int) -> str | None:
        """The SHA-256 of a row's file, where it was told."""
        number = self.file_numbers[row]
        return None if number < 0 else self.files[number].sha256


def file_numbers(files: Iterable[IndexedFile]) -> dict[tuple[str, str], int]:
    """Number files by source and path.

    Raises:
        IndexingError: One is told twice.
    """
    numbers: dict[tuple[str, str], int] = {}
    for number, file in enumerate(files):
        if numbers.setdefault((file.source, file.path), number) != number:
            raise IndexingError(
                f"file {file.path!r} of {file.source!r} is told twice; once will do"
            )
    return numbers


def _number(chunk: Chunk, numbers: Mapping[tuple[str, str], int]) -> int:
    try:
        return numbers[chunk.source, chunk.path]
    except KeyError:
        raise IndexingError(
            f"chunk {chunk.chunk_id!r} is of file {chunk.path!r} of {chunk.source!r}, which is not "
            "among the files; tell all files that chunks come from, or none"
        ) from None


def _check_twins(ids: Sequence[str]) -> None:
    for one, other in pairwise(ids):
        if one == other:
            raise IndexingError(
                f"two chunks have the id {one!r}; ids must differ: is a folder or repository in "
                "the corpus twice under one name?"
            )
