"""Writing an index: parts beside those that stand, then the manifest that names them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.columns import Columns, Vectors
from freshstack_dspy.index.draft import Draft
from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.lsa import LsaModel, fit_lsa
from freshstack_dspy.index.manifest import SCHEMA_VERSION, Manifest, cutter_of_terms, fingerprint
from freshstack_dspy.index.models import Embedder
from freshstack_dspy.index.parts import Parts, write_stamp
from freshstack_dspy.index.rows import Rows, packed
from freshstack_dspy.index.settings import LSA, IndexSettings
from freshstack_dspy.index.table import ChunkTable, TableRows
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.index.workplace import new_part, next_number, sweep
from freshstack_dspy.records import Chunk

Report = Callable[[str, float], None]
"""Told the name of a stage and the fraction of it that is done."""
_ROWS_AT_ONCE = 2048
_MOST_PATCHES, _MOST_PATCHED = 50, 0.25
"""Updates, and share of rows changed by them, after which the table is written as a whole."""


class Wanted(NamedTuple):
    """What an index is to be like."""

    settings: IndexSettings
    embedders: Sequence[Embedder]
    cut_by: str
    revisions: Mapping[str, str | None]
    report: Report
    lsa: LsaModel | None = None
    """The model to use; None: one fitted on the rows."""


class _Patch(NamedTuple):
    """How the table that stands becomes that of the draft."""

    deleted: Sequence[str]
    changed: int
    """Rows deleted and appended since it was written as a whole."""


class Writing:
    """One change of an index; only for a `sole_writer`.

    Attributes:
        embedded: For each embedder, how many rows got new vectors.
    """

    def __init__(self, folder: Path, draft: Draft, standing: Parts | None, wanted: Wanted) -> None:
        self._folder, self._draft, self._standing, self._wanted = folder, draft, standing, wanted
        self.embedded: dict[str, int] = {}

    def commit(self) -> None:
        """Write what changes, then the manifest.

        Raises:
            IndexingError: There is nothing to find any chunk by, or an embedder gives no vectors.
        """
        report, standing = self._wanted.report, self._standing
        sweep(self._folder, standing.manifest.parts if standing else ())
        number = next_number(self._folder)
        mark = fingerprint(self._draft.digests, self._wanted.settings.dimensions)
        counts = self._counts()
        report("bm25", 0)
        lexical = LexicalIndex.build(counts)
        report("bm25", 1)
        report(LSA, 0)
        model = self._wanted.lsa or fit_lsa(
            counts, self._wanted.settings.dimensions, mark, self._draft.digests
        )
        patch = self._patch(model)
        columns = self._columns(model, counts, None if patch is None else self._given())
        report("table", 0)
        table_part = self._table_part(patch, number)
        table = self._write_table(table_part, columns, patch)
        manifest = self._manifest(mark, model, columns, number, patch).model_copy(
            update={"table": table_part.name, "table_version": table.version}
        )
        self._write_rows(manifest, table)
        part = new_part(self._folder / manifest.bm25)
        lexical.save(part)
        counts.save(part)
        write_stamp(part, manifest.stamp)
        if not (self._folder / manifest.lsa).exists():
            part = new_part(self._folder / manifest.lsa)
            model.save(part)
            write_stamp(part, model.fitted_on)
        report("table", 1)
        manifest.write(self._folder)

    def _counts(self) -> TermCounts:
        """Count the terms of the rows; those of rows that stand are known."""
        draft, standing = self._draft, self._standing
        new = [row for row in sorted(draft.given) if draft.sources[row] < 0]
        known = None
        if standing is not None and len(new) < len(draft.ids):
            known = standing.counts()
        self._wanted.report("terms", 0)
        counts = TermCounts.of(
            [draft.given[row] for row in new],
            lambda fraction: self._wanted.report("terms", fraction),
            known.vocabulary if known else None,
        )
        if known is not None:
            counts = known.merged(counts, draft.sources)
        if self._wanted.lsa is None:
            counts = counts.used()
        check_terms(counts, draft.ids)
        self._wanted.report("terms", 1)
        return counts

    def _given(self) -> NDArray[np.intp]:
        return np.array(sorted(self._draft.given), np.intp)

    def _patch(self, model: LsaModel) -> _Patch | None:
        """Say how to change the table that stands, or that a new one has to be written."""
        draft, standing = self._draft, self._standing
        if standing is None or len(draft.given) == len(draft.ids):
            return None
        given = np.isin(np.arange(len(draft.ids)), self._given())
        gone = np.ones(len(standing.rows), bool)
        gone[draft.sources[~given]] = False
        before = standing.manifest
        changed = before.table_patched + int(gone.sum()) + len(draft.given)
        identities = (model.fitted_on, *(each.identity for each in self._wanted.embedders))
        names = (LSA, *(each.name for each in self._wanted.embedders))
        if (
            before.search != self._wanted.settings.search
            or identities != tuple(column.identity for column in before.columns)
            or names != tuple(column.name for column in before.columns)
            or before.table_patches >= _MOST_PATCHES
            or changed > _MOST_PATCHED * len(draft.ids)
        ):
            return None
        return _Patch([standing.rows.ids[row] for row in np.flatnonzero(gone).tolist()], changed)

    def _columns(
        self, model: LsaModel, counts: TermCounts, rows: NDArray[np.intp] | None
    ) -> list[Vectors]:
        """Make the vectors of some rows, by default of all."""
        report = self._wanted.report
        if rows is None:
            rows = np.arange(len(self._draft.ids))
        makers = Columns(
            self._draft, self._standing, rows, self._wanted.settings.search, self._chunks
        )
        columns = [makers.of_lsa(model, counts)]
        report(LSA, 1)
        for embedder in self._wanted.embedders:
            name = embedder.name
            report(name, 0)
            columns.append(makers.of(embedder, lambda done, name=name: report(name, done)))  # type: ignore[misc]
            report(name, 1)
            self.embedded[name] = columns[-1].new
        return columns

    def _chunks(self, rows: NDArray[np.intp]) -> list[Chunk]:
        """Give chunks: those at hand, and the others from the table that stands."""
        chunks = {row: self._draft.given[row] for row in rows.tolist() if row in self._draft.given}
        others = np.array([row for row in rows.tolist() if row not in chunks], np.intp)
        if len(others):
            assert self._standing is not None
            found = self._standing.chunks(self._draft.sources[others])
            chunks.update(zip(others.tolist(), found, strict=True))
        return [chunks[row] for row in rows.tolist()]

    def _table_part(self, patch: _Patch | None, number: int) -> Path:
        if patch is None:
            return new_part(self._folder / f"table-{number}")
        assert self._standing is not None
        return self._folder / self._standing.manifest.table

    def _write_table(
        self, part: Path, columns: Sequence[Vectors], patch: _Patch | None
    ) -> ChunkTable:
        widths = {each.column.name: each.column.dimensions for each in columns}
        if patch is not None:
            assert self._standing is not None
            blocks = self._blocks(self._given(), columns)
            return self._standing.table.patched(patch.deleted, widths, blocks)
        table = ChunkTable.create(
            part, widths, self._blocks(np.arange(len(self._draft.ids)), columns)
        )
        for each in columns:
            if each.column.search == "approximate":
                table = table.index_vectors(each.column.name, len(self._draft.ids))
        return table

    def _blocks(self, rows: NDArray[np.intp], columns: Sequence[Vectors]) -> Iterator[TableRows]:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            yield TableRows(
                chunks=self._chunks(rows[block]),
                file_hashes=[self._draft.file_hash(row) for row in rows[block].tolist()],
                vectors={each.column.name: each.values[block] for each in columns},
            )
            self._wanted.report("table", min(0.9, (start + len(rows[block])) / len(rows)))

    def _manifest(
        self,
        mark: str,
        model: LsaModel,
        columns: Sequence[Vectors],
        number: int,
        patch: _Patch | None,
    ) -> Manifest:
        before = self._standing.manifest if self._standing else None
        keeps_model = before is not None and before.columns[0].identity == model.fitted_on
        draft, wanted = self._draft, self._wanted
        return Manifest(
            schema_version=SCHEMA_VERSION,
            fingerprint=mark,
            dimensions=wanted.settings.dimensions,
            search=wanted.settings.search,
            terms_by=cutter_of_terms(),
            cut_by=wanted.cut_by,
            revisions=dict(sorted(wanted.revisions.items())),
            chunks=len(draft.ids),
            files=len(draft.files),
            tokens=int(draft.tokens.sum()),
            columns=tuple(each.column for each in columns),
            lsa_changed=0 if model.fitted_on == mark else model.changed(draft.digests),
            table=f"table-{number}",
            table_version=1,
            table_patches=before.table_patches + 1 if before and patch else 0,
            table_patched=patch.changed if patch else 0,
            rows=f"rows-{number}",
            bm25=f"bm25-{number}",
            lsa=before.lsa if before and keeps_model else f"lsa-{number}",
        )

    def _write_rows(self, manifest: Manifest, table: ChunkTable) -> None:
        draft, row_ids = self._draft, table.row_ids()
        if row_ids.keys() != set(draft.ids):
            raise IndexingError(f"{self._folder}: the table was changed by another program")
        part = new_part(self._folder / manifest.rows)
        Rows(
            *packed(draft.ids),
            draft.digests,
            draft.embedded,
            draft.tokens,
            np.array([row_ids[chunk_id] for chunk_id in draft.ids], np.uint64),
            draft.file_numbers,
            draft.files,
        ).save(part)
        write_stamp(part, manifest.stamp)


def check_terms(counts: TermCounts, ids: Sequence[str]) -> None:
    """Refuse chunks none of which can be found.

    Raises:
        IndexingError: No term stands in any of them.
    """
    if not counts.counts.nnz:
        raise IndexingError(
            f"none of the {len(ids)} chunks holds a word to find it by; the first is {ids[0]!r}"
        )
