"""From the configured corpora to files, to chunks, to an index that is up to date."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.config import BuildConfig, CorpusConfig, Mode
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.corpus.git import fetch
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import IndexingError, SourceError
from freshstack_dspy.files import Uri
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS, Models, connected
from freshstack_dspy.index.storage import IndexedFile, place_of
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.recorder import Access
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.code import code_sha256
from freshstack_dspy.recipes.session import open_replies
from freshstack_dspy.records import Chunk, LicenceFile, Query, SkippedFile, SourceFile
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.counts import count_kinds, listed

_REASONS_SHOWN = 3


class ChunkedCorpora(NamedTuple):
    """All chunks of a configuration's corpora, and what they were cut from."""

    chunks: list[Chunk]
    files: list[IndexedFile]
    skipped: list[SkippedFile]
    licences: list[LicenceFile]

    def contents(self, queries: Sequence[Query]) -> Contents:
        """The records that a build begins with."""
        return Contents(
            queries=tuple(queries), skipped=tuple(self.skipped), licences=tuple(self.licences)
        )


def with_repositories(config: BuildConfig, mode: Mode, progress: Progress) -> BuildConfig:
    """Fetch the repository of each corpus that has a URL, and pin its revision to a commit.

    In `replay` nothing is fetched: a branch is then what it was when it was last looked up.

    Raises:
        SourceError: A repository or revision cannot be had.
    """
    remote = sum(corpus.url is not None for corpus in config.corpus)
    if not remote:
        return config
    notes: list[str] = []
    progress.start("repositories", remote)
    found = []
    for corpus in config.corpus:
        found.append(
            fetch(corpus, config.cache.clones, offline=mode == "replay", progress=notes.append)
        )
        if corpus.url is not None:
            progress.advance("repositories")
    offline = [note for note in notes if " as last fetched" in note]
    progress.finish("repositories", "; ".join(offline) or f"{remote} at their commits")
    return config.model_copy(update={"corpus": tuple(found)})


def chunk_corpora(config: BuildConfig, progress: Progress) -> ChunkedCorpora:
    """Read all corpora and give their chunks; those of unchanged files come from the index.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
    """
    sources: list[SourceFile] = []
    cut = ChunkedCorpora([], [], [], [])
    progress.start("files", len(config.corpus))
    for corpus in config.corpus:
        sources += _read(corpus, config.chunking.max_file_bytes, cut)
        progress.advance("files")
    skipped = listed(count_kinds(cut.skipped))
    note = f"{len(sources):,} to index" + (f"; skipped: {skipped}" if skipped else "")
    progress.finish("files", note)
    for file in sources:
        digest = hashlib.sha256(file.data).hexdigest()
        cut.files.append(IndexedFile(file.source, file.path, digest, file.encoding))

    try:
        index: HybridIndex | None = open_index(config)
    except IndexingError:
        index = None
    if index and index.manifest.cut_by != cut_by(config):
        index = None
    known = set(index.manifest.files) if index else set()
    changed = [file for file, row in zip(sources, cut.files, strict=True) if row not in known]
    progress.start("chunks", len(changed))
    for file in changed:
        cut.chunks.extend(chunk_file(file, config.chunking.max_tokens))
        progress.advance("chunks")
    note = f"{len(cut.chunks):,} of {len(changed):,} files" if changed or not index else ""
    made = len(cut.chunks)
    if index:
        unchanged = {(file.source, file.path) for file in known.intersection(cut.files)}
        revisions = {file.source: file.revision for file in sources}
        cut.chunks.extend(
            chunk.model_copy(update={"revision": revisions[chunk.source]})
            for chunk in index.chunks()
            if (chunk.source, chunk.path) in unchanged
        )
        note += f"{'; ' if note else ''}{len(cut.chunks) - made:,} unchanged"
    progress.finish("chunks", note)
    return cut


def index_corpora(
    config: BuildConfig,
    cut: ChunkedCorpora,
    *,
    models: Models = NO_MODELS,
    progress: Progress | bool | None = None,
) -> HybridIndex:
    """Open the index of these chunks at `index.path`, or build it.

    Raises:
        IndexingError: The chunks cannot be indexed.
        FreshstackError: An embedder cannot embed; see `errors.py`.
    """
    return HybridIndex.build(
        config.index.path,
        config.name,
        cut.chunks,
        files=cut.files,
        models=models,
        dimensions=config.index.dimensions,
        lexical=config.index.lexical,
        approximate_above=config.index.approximate_above,
        cut_by=cut_by(config),
        map_batches=mapper(config.engine),
        progress=progress,
    )


def check_index(config: BuildConfig) -> None:
    """Reach the object store of an index before anything is cut or paid for.

    Raises:
        IndexingError: What is wrong with it, in one line.
    """
    if isinstance(config.index.path, Uri):
        place_of(config.index.path / config.name).exists()


def check_retrievers(config: BuildConfig, chunks: int) -> None:
    """Check that a pool can be made of so many chunks, before anything is paid for.

    Raises:
        IndexingError: They are too many for `lsa`.
    """
    if "lsa" in config.pool.retrievers and chunks > MOST_CHUNKS:
        raise IndexingError(
            f"pool.retrievers names lsa, which is for at most {MOST_CHUNKS:,} chunks, and there are "
            f'{chunks:,}; write under [pool]: retrievers = ["bm25"], or the name of an [[embedder]]'
        )


def open_index(config: BuildConfig, models: Models = NO_MODELS) -> HybridIndex:
    """Open the index of a configuration as it is.

    Raises:
        IndexingError: There is none, or it has no vectors of these embedders.
    """
    path = config.index.path / config.name
    if isinstance(path, Path) and not path.is_dir():
        raise IndexingError(f"{path}: no index here; build it: freshstack index {config.file}")
    return HybridIndex.open(path, models=models)


@contextmanager
def search_models(config: BuildConfig, mode: Mode = "live") -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, under the caps of `[budget]`.

    Raises:
        ConfigError, FatalModelError: As for `index.models.connected`.
        StoreError: The recorded replies cannot be opened.
    """
    with ExitStack() as opened:
        access = Access(mode)
        if any(one and one.path is None for one in (*config.embedder, config.reranker)):
            store, bundles = opened.enter_context(open_replies(config, mode))
            reserved = JobFolder.of(config).reserved()
            account = Account(config.name, config.budget, config.prices, reserved)
            access = Access(mode, store, bundles, account)
        yield opened.enter_context(connected(config, access))


def cut_by(config: BuildConfig) -> str:
    """SHA-256 of what the chunks of a file depend on next to its content and its encoding.

    That is the settings, the code that cuts files, and the versions of the packages it uses.
    """
    code = code_sha256("corpus", "tiktoken|tree-sitter.*")
    return sha256_of({"max_tokens": config.chunking.max_tokens, "code": code})


def _read(corpus: CorpusConfig, max_file_bytes: int, found: ChunkedCorpora) -> list[SourceFile]:
    """The files of a corpus that can be indexed; the others are entered where they belong."""
    entries = list(read_files(corpus, max_file_bytes))
    files = [entry for entry in entries if isinstance(entry, SourceFile)]
    skipped = [entry for entry in entries if isinstance(entry, SkippedFile)]
    found.skipped.extend(skipped)
    found.licences.extend(entry for entry in entries if isinstance(entry, LicenceFile))
    if not files:
        place = corpus.path or corpus.url or corpus.package or "documents"
        reasons = sorted({entry.reason for entry in skipped})
        shown = "; ".join(reasons[:_REASONS_SHOWN]) + "; …" * (len(reasons) > _REASONS_SHOWN)
        why = f" ({len(skipped)} skipped: {shown})" if skipped else ": it holds none"
        raise SourceError(
            f"corpus {corpus.name!r}: no file of {place} can be indexed{why}; name one with text "
            "or code in it"
        )
    return files
