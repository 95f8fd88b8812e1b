"""Updating an index to the state of its files, without reading those that are as they were."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.building import reopened, retell
from freshstack_dspy.index.difference import Difference
from freshstack_dspy.index.draft import Draft
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.manifest import fingerprint
from freshstack_dspy.index.models import Embedder
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.rows import as_bytes
from freshstack_dspy.index.settings import IndexedFile
from freshstack_dspy.index.workplace import sole_writer
from freshstack_dspy.index.writing import Report, Wanted, Writing
from freshstack_dspy.records import Chunk

_REFIT_FROM = 0.2
"""Share of chunks that have changed since `lsa` was fitted, from which on it is fitted again."""


def update_index(
    folder: Path,
    changed: Sequence[Chunk],
    files: Sequence[IndexedFile],
    revisions: Mapping[str, str | None],
    embedders: Sequence[Embedder],
    refit_lsa: bool | None,
    report: Report,
) -> tuple[Parts, Difference]:
    """See `HybridIndex.update`."""
    if not (folder).is_dir():
        raise IndexingError(f"{folder}: no index here to update; build one")
    with sole_writer(folder):
        standing = Parts.open(folder)
        _check(standing, changed, files, revisions, embedders)
        kept = _kept_rows(standing, files)
        known = {(file.source, file.path) for file in set(files) & set(standing.rows.files)}
        new = [chunk for chunk in changed if (chunk.source, chunk.path) not in known]
        draft = Draft.of(new, files).against(standing.rows).beside(standing.rows, kept)
        if not draft.ids:
            raise IndexingError(f"{folder}: no chunk would be left; is the corpus empty?")
        model = _model(standing, draft, refit_lsa)
        wanted = Wanted(
            settings=standing.manifest.settings,
            embedders=embedders,
            cut_by=standing.manifest.cut_by,
            revisions=revisions,
            report=report,
            lsa=model,
        )
        embedded = {embedder.name: 0 for embedder in embedders}
        if _changes(standing, draft, embedders, model):
            writing = Writing(folder, draft, standing, wanted)
            writing.commit()
            embedded = writing.embedded
        elif standing.manifest.revisions != dict(revisions):
            retell(standing, wanted)
        updated = reopened(folder, standing)
    return updated, _difference(standing, updated, embedded, fitted=model is None)


def _check(
    standing: Parts,
    changed: Sequence[Chunk],
    files: Sequence[IndexedFile],
    revisions: Mapping[str, str | None],
    embedders: Sequence[Embedder],
) -> None:
    if not standing.manifest.files:
        raise IndexingError(
            f"{standing.folder}: built without files=…, so it does not know what has changed; "
            "build it with them once"
        )
    for column in standing.manifest.columns[1:]:
        if column.name not in {embedder.name for embedder in embedders}:
            raise IndexingError(
                f"{standing.folder}: has vectors of embedder {column.name!r}, which new chunks need "
                "too; give it (embedders=[…], or its [[embedder]] in the configuration), or build "
                "the index without it"
            )
    known, given_for = set(standing.rows.files), {(chunk.source, chunk.path) for chunk in changed}
    for file in files:
        if file not in known and (file.source, file.path) not in given_for:
            raise IndexingError(
                f"file {file.path!r} of {file.source!r} has not the hash that is in the index, and "
                "no chunks of it were given: it has none, then leave it out, or the index was "
                "updated meanwhile, then compare again"
            )
    for file in files:
        if file.source not in revisions:
            raise IndexingError(
                f"revisions lacks source {file.source!r} of file {file.path!r}; give None if it "
                "has no revision"
            )
    for chunk in changed:
        if revisions.get(chunk.source) != chunk.revision:
            raise IndexingError(
                f"chunk {chunk.chunk_id!r} is of revision {chunk.revision!r}, but revisions has "
                f"{revisions.get(chunk.source)!r} for source {chunk.source!r}"
            )


def _kept_rows(standing: Parts, files: Sequence[IndexedFile]) -> NDArray[np.intp]:
    """The rows whose files are as they were."""
    now = set(files)
    same = np.array([file in now for file in standing.rows.files])
    return np.flatnonzero(same[standing.rows.file_numbers])


def _model(standing: Parts, draft: Draft, refit: bool | None) -> LsaModel | None:
    """The fitted model where it is kept, or None where it is to be fitted again."""
    manifest = standing.manifest
    if manifest.columns[0].identity == fingerprint(draft.digests, manifest.dimensions):
        return standing.lsa
    if refit is None:
        refit = standing.lsa.changed(draft.digests) >= _REFIT_FROM
    return None if refit else standing.lsa


def _changes(
    standing: Parts, draft: Draft, embedders: Sequence[Embedder], model: LsaModel | None
) -> bool:
    vectors = {(column.name, column.identity) for column in standing.manifest.columns}
    return (
        model is None
        or draft.files != standing.rows.files
        or any((each.name, each.identity) not in vectors for each in embedders)
    )


def _difference(
    before: Parts, after: Parts, embedded: dict[str, int], *, fitted: bool
) -> Difference:
    old, new = set(as_bytes(before.rows.digests)), set(as_bytes(after.rows.digests))
    old_files = {file[:2]: file.sha256 for file in before.rows.files}
    new_files = {file[:2]: file.sha256 for file in after.rows.files}
    both = old_files.keys() & new_files.keys()
    kept = sum(old_files[each] == new_files[each] for each in both)
    return Difference(
        added=len(new - old),
        removed=len(old - new),
        kept=len(new & old),
        files_added=len(new_files) - len(both),
        files_changed=len(both) - kept,
        files_removed=len(old_files) - len(both),
        files_kept=kept,
        embedded=embedded,
        lsa="fitted" if fitted else "kept",
        lsa_changed=after.manifest.lsa_changed,
    )
