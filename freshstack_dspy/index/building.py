"""Building an index of given chunks, from nothing or from what stands."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.columns import check_embedders
from freshstack_dspy.index.draft import Draft
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.manifest import MANIFEST_FILE, fingerprint
from freshstack_dspy.index.models import Embedder, is_recorded
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.index.term_counts import indexed_text
from freshstack_dspy.index.vectors import unit_rows
from freshstack_dspy.index.workplace import check_ours, sole_writer, sweep
from freshstack_dspy.index.writing import Report, Wanted, Writing
from freshstack_dspy.records import Chunk

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def index_folder(root: Path, name: str) -> Path:
    """Give the folder of an index.

    Raises:
        IndexingError: The name is none for a folder.
    """
    if not _NAME.fullmatch(name):
        raise IndexingError(
            f"an index cannot be called {name!r}; its name is that of a folder: letters, digits, "
            "dots, dashes and underscores, the first one a letter or digit"
        )
    return root / name


def only_index(path: Path) -> Path:
    """Give the folder of an index: this one, or the only one in it.

    Raises:
        IndexingError: There is none, or there are several.
    """
    if (path / MANIFEST_FILE).is_file():
        return path
    found = sorted(child.parent for child in path.glob(f"*/{MANIFEST_FILE}"))
    if not found:
        raise IndexingError(f"{path}: no index here; build one, or give another folder")
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise IndexingError(f"{path}: several indexes here; open one of {names}")
    return found[0]


def wanted_of(
    chunks: Sequence[Chunk],
    settings: IndexSettings,
    embedders: Sequence[Embedder],
    cut_by: str,
    progress: Report | None,
    lsa: LsaModel | None = None,
) -> Wanted:
    """Say what an index of these chunks is to be like.

    Raises:
        IndexingError: A setting is out of range, a name is taken, or a source has two revisions.
    """
    check_embedders(embedders)
    return Wanted(
        settings=settings.checked(),
        embedders=embedders,
        cut_by=cut_by,
        revisions=revisions_of(chunks),
        report=progress or silence,
        lsa=lsa,
    )


def revisions_of(chunks: Iterable[Chunk]) -> dict[str, str | None]:
    """Give the revision of each source.

    Raises:
        IndexingError: A source has two.
    """
    revisions: dict[str, str | None] = {}
    for chunk in chunks:
        known = revisions.setdefault(chunk.source, chunk.revision)
        if known != chunk.revision:
            raise IndexingError(
                f"chunk {chunk.chunk_id!r} is of revision {chunk.revision!r}, but others of source "
                f"{chunk.source!r} are of {known!r}; a source has one revision"
            )
    return revisions


def silence(_stage: str, _fraction: float) -> None:
    """Tell nobody."""


def build_index(
    folder: Path, chunks: Sequence[Chunk], files: Sequence[IndexedFile], wanted: Wanted
) -> Parts:
    """See `HybridIndex.build`."""
    draft = _drafted(chunks, files)
    with sole_writer(folder):
        standing = standing_in(folder)
        Writing(folder, draft, standing, wanted).commit()
        return reopened(folder, standing)


def build_or_open_index(
    folder: Path, chunks: Sequence[Chunk], files: Sequence[IndexedFile], wanted: Wanted
) -> Parts:
    """See `HybridIndex.build_or_open`."""
    draft = _drafted(chunks, files)
    standing = _opened(folder)
    if standing is not None and _holds(standing, draft, wanted) and _told(standing, wanted):
        return standing
    with sole_writer(folder):
        standing = standing_in(folder)
        if standing is None:
            Writing(folder, draft, None, wanted).commit()
        elif not _holds(standing, draft, wanted):
            Writing(folder, draft.against(standing.rows), standing, wanted).commit()
        elif not _told(standing, wanted):
            retell(standing, wanted)
        return reopened(folder, standing)


def holds_these(parts: Parts, chunks: Sequence[Chunk], wanted: Wanted) -> bool:
    """See `HybridIndex.holds`."""
    return _holds(parts, _drafted(chunks, ()), wanted)


def standing_in(folder: Path) -> Parts | None:
    """Open what stands in a folder that is to be written, if it can be opened.

    Raises:
        IndexingError: The folder holds something else than an index.
    """
    if not (folder / MANIFEST_FILE).exists():
        check_ours(folder)
    return _opened(folder)


def reopened(folder: Path, replaced: Parts | None) -> Parts:
    """Open what was just written, and remove what nobody reads any more."""
    if replaced is not None:
        replaced.close()
    parts = Parts.open(folder)
    sweep(folder, parts.manifest.parts)
    return parts


def retell(standing: Parts, wanted: Wanted) -> None:
    """Commit what is said of an index where its content is as wanted."""
    told = {
        "revisions": dict(sorted(wanted.revisions.items())),
        "cut_by": wanted.cut_by or standing.manifest.cut_by,
    }
    standing.manifest.model_copy(update=told).write(standing.folder)


def _drafted(chunks: Sequence[Chunk], files: Sequence[IndexedFile]) -> Draft:
    if not chunks:
        raise IndexingError("there are no chunks to index; is the corpus empty, or all skipped?")
    with_chunks = {(chunk.source, chunk.path) for chunk in chunks}
    return Draft.of(chunks, [file for file in files if file[:2] in with_chunks])


def _opened(folder: Path) -> Parts | None:
    try:
        return Parts.open(folder)
    except IndexingError:
        return None  # missing or damaged: it is built, and nothing is taken from it


def _holds(standing: Parts, draft: Draft, wanted: Wanted) -> bool:
    """Whether an index has the wanted content, with vectors made as from nothing."""
    manifest = standing.manifest
    vectors = {(column.name, column.identity) for column in manifest.columns}
    return (
        manifest.fingerprint == fingerprint(draft.digests, wanted.settings.dimensions)
        and manifest.search == wanted.settings.search
        and manifest.lsa_is_pure
        and all((each.name, each.identity) in vectors for each in wanted.embedders)
        and (not draft.files or draft.files == standing.rows.files)
        and all(_as_recorded(standing, draft, each) for each in wanted.embedders)
    )


def _as_recorded(standing: Parts, draft: Draft, embedder: Embedder) -> bool:
    """Whether the vectors that stand are those that are recorded now, where there are records."""
    if not is_recorded(embedder):
        return True
    texts = [indexed_text(draft.given[row]) for row in range(len(draft.ids))]
    made = unit_rows(embedder.embed_passages(texts, lambda _: None), embedder.name, len(texts))
    stands = standing.vectors(embedder.name, np.arange(len(texts)))
    return np.array_equal(made.astype(np.float32), stands)


def _told(standing: Parts, wanted: Wanted) -> bool:
    manifest = standing.manifest
    return manifest.revisions == wanted.revisions and wanted.cut_by in ("", manifest.cut_by)
