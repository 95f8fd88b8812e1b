"""The index of a configuration's corpora: built, brought up to date with the files, opened."""

import hashlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.difference import Difference
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.models import Embedder, Reranker
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.recipes.corpus import cut_files, read_corpora
from freshstack_dspy.recipes.cutting import cut_by
from freshstack_dspy.recipes.session import Progress, Silence
from freshstack_dspy.records import Chunk, LicenceFile, SkippedFile, SourceFile


@dataclass(frozen=True)
class Indexing:
    """An index as it now stands, and what became of the files."""

    index: HybridIndex
    files: int
    """How many are indexed."""
    skipped: list[SkippedFile]
    licences: list[LicenceFile]
    difference: Difference | None
    """What an update changed; None where all was built."""


@dataclass(frozen=True)
class CutCorpora:
    """All chunks of a configuration's corpora, and what they were cut from."""

    chunks: list[Chunk]
    files: list[IndexedFile]
    skipped: list[SkippedFile]
    licences: list[LicenceFile]


def cut_corpora(config: BuildConfig, progress: Progress) -> CutCorpora:
    """Read all corpora and give their chunks.

    Those of files that the standing index has unchanged are taken from it, not cut again.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
    """
    read = read_corpora(config, progress)
    files = indexed_files(read.files)
    standing = _standing(config)
    known = set(standing.files()) if standing else set()
    changed = [
        file for file, indexed in zip(read.files, files, strict=True) if indexed not in known
    ]
    chunks = cut_files(changed, config, progress)
    if standing:
        chunks += _kept(standing, known & set(files), read.files)
    return CutCorpora(chunks, files, read.skipped, read.licences)


def index_corpora(
    config: BuildConfig,
    cut: CutCorpora,
    *,
    embedders: Sequence[Embedder] = (),
    reranker: Reranker | None = None,
    progress: Progress | None = None,
) -> HybridIndex:
    """Open the index of these chunks, or make it of the one that stands; it searches as a new one.

    Raises:
        IndexingError: The chunks cannot be indexed.
        FreshstackError: An embedder cannot embed; see `errors.py`.
    """
    return HybridIndex.build_or_open(
        config.index.path,
        config.name,
        cut.chunks,
        files=cut.files,
        embedders=embedders,
        reranker=reranker,
        rerank_depth=_rerank_depth(config),
        settings=IndexSettings(config.index.dimensions, config.index.search),
        cut_by=cut_by(config),
        progress=Stages(progress or Silence()),
    )


def build_index(
    config: BuildConfig,
    *,
    embedders: Sequence[Embedder] = (),
    reranker: Reranker | None = None,
    progress: Progress | None = None,
) -> Indexing:
    """Read and cut all corpora of a configuration, and index them at `index.path` as `name`.

    Args:
        config: As `load_config` reads it.
        embedders: Those of its `[[embedder]]` sections.
        reranker: That of its `[reranker]`.
        progress: Whom to tell how it goes.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
        IndexingError: The chunks cannot be indexed.
        FreshstackError: An embedder cannot embed; see `errors.py`.
    """
    progress = progress or Silence()
    read = read_corpora(config, progress)
    index = HybridIndex.build(
        config.index.path,
        config.name,
        cut_files(read.files, config, progress),
        files=indexed_files(read.files),
        embedders=embedders,
        reranker=reranker,
        rerank_depth=_rerank_depth(config),
        settings=IndexSettings(config.index.dimensions, config.index.search),
        cut_by=cut_by(config),
        progress=Stages(progress),
    )
    return Indexing(index, len(read.files), read.skipped, read.licences, None)


def update_index(
    config: BuildConfig,
    *,
    embedders: Sequence[Embedder] = (),
    reranker: Reranker | None = None,
    refit_lsa: bool | None = None,
    progress: Progress | None = None,
) -> Indexing:
    """Bring the index of a configuration to the state of its files.

    All files are read and hashed; only those whose content has changed are cut, and only chunks
    that have changed are embedded.

    Args:
        config: As for `build_index`.
        embedders: As for `build_index`.
        reranker: As for `build_index`.
        refit_lsa: Whether to fit `lsa` again; None: once a fifth of the chunks has changed.
        progress: As for `build_index`.

    Raises:
        IndexingError: There is no index, or one whose chunks were cut otherwise: build it.
        FreshstackError: As for `build_index`.
    """
    progress = progress or Silence()
    standing = open_index(config)
    if standing.cut_by != cut_by(config):
        raise IndexingError(
            f"{standing.path}: made with other [chunking] or [index] settings, or by another "
            "version, so nothing of it can be kept; build it: freshstack index build CONFIG"
        )
    read = read_corpora(config, progress)
    files = indexed_files(read.files)
    known = set(standing.files())
    changed = [
        file for file, indexed in zip(read.files, files, strict=True) if indexed not in known
    ]
    chunks = cut_files(changed, config, progress)
    with_chunks = {(chunk.source, chunk.path) for chunk in chunks}  # a notebook may have no text
    files = [file for file in files if file in known or file[:2] in with_chunks]
    index, difference = HybridIndex.update(
        config.index.path,
        config.name,
        chunks,
        files=files,
        revisions={file.source: file.revision for file in read.files},
        embedders=embedders,
        reranker=reranker,
        rerank_depth=_rerank_depth(config),
        refit_lsa=refit_lsa,
        progress=Stages(progress),
    )
    return Indexing(index, len(files), read.skipped, read.licences, difference)


def open_index(
    config: BuildConfig,
    *,
    embedders: Sequence[Embedder] = (),
    reranker: Reranker | None = None,
) -> HybridIndex:
    """Open the index of a configuration as it stands.

    Raises:
        IndexingError: There is none, or it is damaged or has no vectors of these embedders.
    """
    folder = config.index.path / config.name
    if not folder.is_dir():
        raise IndexingError(f"{folder}: no index here; build it: freshstack index build CONFIG")
    return HybridIndex.open(
        config.index.path,
        name=config.name,
        embedders=embedders,
        reranker=reranker,
        rerank_depth=_rerank_depth(config),
    )


def indexed_files(files: Sequence[SourceFile]) -> list[IndexedFile]:
    """Hash files, in their order."""
    return [
        IndexedFile(file.source, file.path, hashlib.sha256(file.data).hexdigest(), file.encoding)
        for file in files
    ]


def _standing(config: BuildConfig) -> HybridIndex | None:
    """The index that stands, if its chunks are what cutting the same files would give."""
    try:
        index = open_index(config)
    except IndexingError:
        return None
    return index if index.cut_by == cut_by(config) else None


def _kept(
    standing: HybridIndex, unchanged: Set[IndexedFile], files: Sequence[SourceFile]
) -> Iterator[Chunk]:
    """Give the chunks of unchanged files, at the revision of now."""
    kept = {(file.source, file.path) for file in unchanged}
    revisions = {file.source: file.revision for file in files}
    for chunk in standing.chunks():
        if (chunk.source, chunk.path) in kept:
            revision = revisions[chunk.source]
            same = chunk.revision == revision
            yield chunk if same else chunk.model_copy(update={"revision": revision})


class Stages:
    """An index's report of its stages, as steps of a hundred parts each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._parts: dict[str, int] = {}

    def __call__(self, stage: str, fraction: float) -> None:
        """Take in that so much of a stage is done."""
        if stage not in self._parts:
            self._parts[stage] = 0
            self._progress.start(stage, 100)
        before, now = self._parts[stage], int(fraction * 100)
        for _ in range(now - before):
            self._progress.advance(stage)
        self._parts[stage] = max(before, now)
        if before < 100 <= now:
            self._progress.finish(stage)


def _rerank_depth(config: BuildConfig) -> int:
    return config.reranker.depth if config.reranker else 1
