"""The columns of vectors of rows that are written: made by embedders, or taken from what stands."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.draft import Draft
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.manifest import VectorColumn
from freshstack_dspy.index.models import Embedder, is_recorded
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.rows import as_bytes
from freshstack_dspy.index.settings import LSA, SearchKind
from freshstack_dspy.index.term_counts import TermCounts, indexed_text
from freshstack_dspy.index.vectors import unit_rows
from freshstack_dspy.records import Chunk

_EXACT_UP_TO = 400_000_000
"""Numbers in a column that `auto` searches exactly: 1.6 GB in memory."""


class Vectors(NamedTuple):
    """The vectors of the rows that are written."""

    column: VectorColumn
    values: NDArray[np.float32]
    """Shape (rows, dimensions), rows of length 1 or 0."""
    new: int
    """How many of them were made now."""


class Columns:
    """Makes the vectors of some rows of a draft.

    Args:
        draft: The index to be.
        standing: What stands, whose vectors of equal content are taken.
        rows: Those that are written.
        search: As asked for.
        chunks_of: Gives chunks by row.
    """

    def __init__(
        self,
        draft: Draft,
        standing: Parts | None,
        rows: NDArray[np.intp],
        search: str,
        chunks_of: Callable[[NDArray[np.intp]], Sequence[Chunk]],
    ) -> None:
        self._draft, self._standing, self._rows = draft, standing, rows
        self._search, self._chunks_of = search, chunks_of
        self._all_given = len(draft.given) == len(draft.ids)

    def of_lsa(self, model: LsaModel, counts: TermCounts) -> Vectors:
        """Embed the rows by their terms."""
        values = model.embed_counts(TermCounts(counts.vocabulary, counts.counts[self._rows]))
        return Vectors(self._column(LSA, model.fitted_on, values), values, len(values))

    def of(self, embedder: Embedder, progress: Callable[[float], None]) -> Vectors:
        """Embed the rows whose content has no vector of this embedder yet.

        Raises:
            IndexingError: It gives something else than one vector for each text.
        """
        column = standing_column(self._standing, embedder.identity)
        # What is recorded is taken from the records: they may have changed since, a refresh asks
        # again, and a bundle of what was used must hold it.
        recorded = self._all_given and is_recorded(embedder)
        places = np.full(len(self._rows), -1) if recorded else self._places_in(column)
        lacking = places < 0
        texts = [indexed_text(chunk) for chunk in self._chunks_of(self._rows[lacking])]
        width = column.dimensions if column and not recorded else None
        made = None
        if texts or width is None:
            made = unit_rows(
                embedder.embed_passages(texts, progress), embedder.name, len(texts), width
            )
            width = made.shape[1]
        values = np.zeros((len(places), width or 1), np.float32)
        if made is not None:
            values[lacking] = made
        if column is not None and self._standing is not None and not lacking.all():
            values[~lacking] = self._standing.vectors(column.name, places[~lacking])
        return Vectors(
            self._column(embedder.name, embedder.identity, values), values, int(lacking.sum())
        )

    def _places_in(self, column: VectorColumn | None) -> NDArray[np.intp]:
        """For each row one of equal content that stands and has a vector in a column, or -1."""
        if column is None or self._standing is None:
            return np.full(len(self._rows), -1)
        known = {each: row for row, each in enumerate(as_bytes(self._standing.rows.embedded))}
        wanted = as_bytes(self._draft.embedded[self._rows])
        return np.array([known.get(each, -1) for each in wanted], np.intp)

    def _column(self, name: str, identity: str, values: NDArray[np.float32]) -> VectorColumn:
        numbers = len(self._draft.ids) * values.shape[1]
        exact = self._search == "exact" or (self._search == "auto" and numbers <= _EXACT_UP_TO)
        kind: SearchKind = "exact" if exact else "approximate"
        return VectorColumn(name=name, identity=identity, dimensions=values.shape[1], search=kind)


def standing_column(standing: Parts | None, identity: str) -> VectorColumn | None:
    """Find the column of vectors of an embedder by its identity."""
    columns = standing.manifest.columns[1:] if standing else ()
    return next((each for each in columns if each.identity == identity), None)


def check_embedders(embedders: Sequence[Embedder]) -> None:
    """Refuse names that are taken.

    Raises:
        IndexingError: Two embedders have one name, or one that of another retriever.
    """
    taken = ["bm25", LSA, "hybrid", "hybrid+rerank"]
    for embedder in embedders:
        if embedder.name in taken:
            raise IndexingError(
                f"an embedder is called {embedder.name!r}, which is taken; names of retrievers "
                f"must differ, and these are: {', '.join(taken)}"
            )
        taken.append(embedder.name)


def check_stored(
    folder: Path, columns: Sequence[VectorColumn], embedders: Sequence[Embedder]
) -> list[str]:
    """Give the names of the embedders of an index, beside `lsa`.

    Raises:
        IndexingError: It has no vectors of a given embedder, as that is now.
    """
    stored = {column.name: column.identity for column in columns[1:]}
    for embedder in embedders:
        if stored.get(embedder.name) != embedder.identity:
            raise IndexingError(
                f"{folder}: no vectors of embedder {embedder.name!r} as it is configured now; it has "
                f"those of: {', '.join(stored) or 'no embedder'}; make them with: freshstack index "
                "update CONFIG"
            )
    return list(stored)
