"""From the configured corpora to chunks, in a file next to the indexes, and to an index over them.

Nothing holds a corpus: files are read one after the other, cut in batches on all cores, and sorted
on disk. Only the files that changed are cut again.
"""

import functools
import hashlib
import json
import platform
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.config import K1, B, BuildConfig, CorpusConfig, Mode
from freshstack_dspy.corpus.git import commit_date, fetch, find_commit
from freshstack_dspy.corpus.indexed_files import ReadFile, SeenFiles, list_files, look_at_files
from freshstack_dspy.corpus.parquet import (
    ChunkFile,
    ChunkSums,
    merged,
    sorted_batches,
    write_chunks,
)
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import CollectionError, ConfigError, IndexingError, SourceError
from freshstack_dspy.files import Uri, check_writable, existing_folder, replace_folder
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS, Models
from freshstack_dspy.index.storage import Database
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.workers import packed
from freshstack_dspy.progress import Progress
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile
from freshstack_dspy.registry import installed
from freshstack_dspy.stored.contents import count_kinds, listed

if TYPE_CHECKING:
    import pyarrow as pa

_REASONS_SHOWN = 3
_BATCH_FILES, _BATCH_BYTES = 256, 1 << 20
"""Files, and their bytes, that are cut together, in about a second."""
_FEW_FAULTS, _SHARE_OF_FAULTS = 10, 0.05
"""So many files of a corpus may be left out because they cannot be cut."""
_CHUNKS, _ABOUT = "chunks.parquet", "chunks.json"


# Repositories


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
    fetched = []
    for corpus in config.corpus:
        fetched.append(
            fetch(corpus, config.cache.clones, offline=mode == "replay", progress=notes.append)
        )
        if corpus.url is not None:
            progress.advance("repositories")
    offline = [note for note in notes if " as last fetched" in note]
    progress.finish("repositories", "; ".join(offline) or f"{remote} at their commits")
    return config.model_copy(update={"corpus": tuple(fetched)})


# Chunks


class ChunkedCorpora(NamedTuple):
    """All chunks of a configuration's corpora, and what they were cut from."""

    chunks: ChunkFile
    files: Sequence[ReadFile] = ()
    skipped: Sequence[SkippedFile] = ()
    licences: Sequence[LicenceFile] = ()


def chunk_corpora(config: BuildConfig, progress: Progress) -> ChunkedCorpora:
    """Cut all corpora into chunks; those of unchanged files are there from the last time.

    They are kept next to the indexes, or, where nothing can be written, in a temporary folder.

    Raises:
        SourceError: A corpus cannot be read, none of its files can be indexed, or too many cannot
            be cut.
        EngineError: The cluster of `[engine]` cannot do the work.
    """
    mapper(config.engine)  # before any work
    files, skipped, licences = look(config, progress)
    folder, by = config.chunks_folder / ".chunks" / config.name, _cut_by(config)
    before = _Kept.read(existing_folder(folder), by)
    chunks, faults, made = before.chunks, before.faults_in(files), 0
    known = {file.content for file in before.files}
    changed = {(file.source, file.path): file.sha256 for file in files if file.content not in known}
    progress.start("chunks", len(changed))
    if before.files != files:
        cutting = _Cutting(config, changed, progress, faults)
        chunks = _write(folder, by, files, before, cutting)
        made = cutting.made
    notes = [f"{made:,} of {len(changed):,} files"] if changed or not before.files else []
    notes += [f"{len(chunks) - made:,} unchanged"] if before.files else []
    progress.finish("chunks", "; ".join(notes))
    left_out = {(fault.source, fault.path) for fault in faults}
    cut = [file for file in files if (file.source, file.path) not in left_out]
    return ChunkedCorpora(chunks, cut, [*skipped, *faults], licences)


def look(
    config: BuildConfig, progress: Progress
) -> tuple[list[ReadFile], list[SkippedFile], list[LicenceFile]]:
    """Say what is in the files of the corpora."""
    most = config.chunking.max_file_bytes
    files: list[ReadFile] = []
    skipped: list[SkippedFile] = []
    licences: list[LicenceFile] = []
    progress.start("files", len(config.corpus))
    for corpus in config.corpus:
        before, already = len(files), len(skipped)
        for file in look_at_files(corpus, most, _seen_files(config, corpus)):
            if isinstance(file, ReadFile):
                files.append(file)
            elif isinstance(file, SkippedFile):
                skipped.append(file)
            else:
                licences.append(file)
        if len(files) == before:
            place = corpus.path or corpus.url or corpus.package or "documents"
            reasons = sorted({file.reason for file in skipped[already:]})
            shown = "; ".join(reasons[:_REASONS_SHOWN]) + "; …" * (len(reasons) > _REASONS_SHOWN)
            why = f" ({len(skipped) - already} skipped: {shown})" if reasons else ": it holds none"
            raise SourceError(
                f"corpus {corpus.name!r}: no file of {place} can be indexed{why}; name one with "
                "text or code in it"
            )
        progress.advance("files")
    kinds = listed(count_kinds(skipped))
    note = f"; skipped: {kinds}" if kinds else ""
    progress.finish("files", f"{len(files):,} to index{note}")
    return files, skipped, licences


def check_faults(faults: Sequence[SkippedFile], files: Mapping[str, int]) -> None:
    """Check that few of the files of each source cannot be cut.

    Raises:
        SourceError: Too many cannot be cut: something else is wrong.
    """
    for source, count in Counter(fault.source for fault in faults).items():
        if count > max(_FEW_FAULTS, _SHARE_OF_FAULTS * files[source]):
            reasons = Counter(fault.reason for fault in faults if fault.source == source)
            ((reason, _),) = reasons.most_common(1)
            raise SourceError(
                f"corpus {source!r}: {count} of {files[source]:,} files cannot be cut, and more "
                f"than {_SHARE_OF_FAULTS:.0%} are too many; most often: {reason}; exclude them"
            )


class _Kept(NamedTuple):
    """The chunks of the last time."""

    chunks: ChunkFile
    files: list[ReadFile]
    """That they were cut from."""
    faults: list[SkippedFile]
    """Those of the files that could not be cut."""

    @classmethod
    def read(cls, folder: Path, by: str) -> "_Kept":
        """Read them; none, where they were cut otherwise, are damaged, or are just being replaced."""
        with suppress(OSError, ValueError, TypeError, KeyError, CollectionError):
            written = (folder / _ABOUT).read_bytes()
            about = json.loads(written)
            chunks = ChunkFile(folder / _CHUNKS, ChunkSums(*about["sums"]))
            whole = len(chunks) == chunks.sums.chunks and (folder / _ABOUT).read_bytes() == written
            if about["cut_by"] == by and whole:
                faults = [SkippedFile.model_validate(fault) for fault in about["faults"]]
                return cls(chunks, [ReadFile(*file) for file in about["files"]], faults)
        return cls(ChunkFile.holding([]), [], [])

    def _revisions(self, files: Iterable[ReadFile]) -> dict[tuple[str, str], str | None]:
        """The revisions of those files that are as they were, by source and path."""
        known = {file.content for file in self.files}
        return {(file.source, file.path): file.revision for file in files if file.content in known}

    def faults_in(self, files: Iterable[ReadFile]) -> list[SkippedFile]:
        """Give the faults of those files that are as they were."""
        unchanged = self._revisions(files)
        return [fault for fault in self.faults if (fault.source, fault.path) in unchanged]

    def unchanged(self, files: Iterable[ReadFile]) -> Iterator["pa.Table"]:
        """Give the chunks of those files that are as they were; their revision may be another."""
        import pyarrow as pa

        revisions = self._revisions(files)
        for batch in self.chunks.batches() if revisions else ():
            columns = (batch[name].to_pylist() for name in ("source", "path"))
            places = list(zip(*columns, strict=True))
            number = batch.schema.get_field_index("revision")
            now = pa.array([revisions.get(place) for place in places], pa.string())
            table = pa.table(batch).set_column(number, batch.schema.field(number), now)
            yield table.filter(pa.array([place in revisions for place in places], pa.bool_()))


class _Cutting:
    """Reads files and cuts them, on all cores or over a cluster."""

    def __init__(
        self,
        config: BuildConfig,
        places: Mapping[tuple[str, str], str],
        progress: Progress,
        faults: list[SkippedFile],
    ) -> None:
        """Take the files by source and path, each with its hash; what cannot be cut joins `faults`."""
        self._config, self._places, self._progress = config, places, progress
        self.faults = faults
        self.made = 0
        """How many chunks were cut."""

    def batches(self) -> Iterator["pa.RecordBatch"]:
        """Give the chunks of the files, in the order of these."""
        from freshstack_dspy.arrow_batches import chunk_batch

        config = self._config
        cut = functools.partial(
            chunk_batch,
            max_tokens=config.chunking.max_tokens,
            languages=_languages(config),
            boundaries=config.chunking.boundaries,
        )
        cut_all, new = mapper(config.engine), len(self.faults)
        files = Counter(source for source, _ in self._places)
        for batch in cut_all(cut, self._files()) if self._places else ():
            whole = batch["fault"].is_null()
            for row in batch.filter(batch["fault"].is_valid()).to_pylist():
                place = {"source": row["source"], "path": row["path"]}
                self.faults.append(SkippedFile(**place, kind="unreadable", reason=row["fault"]))
            if whole.true_count < len(batch):
                check_faults(self.faults[new:], files)
            cut_well = batch.filter(whole).drop_columns("fault")
            self.made += len(cut_well)
            yield cut_well

    def _files(self) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from freshstack_dspy.arrow_batches import FILES

        packs = packed(
            self._read(), lambda file: len(file.data), most_size=_BATCH_BYTES, most=_BATCH_FILES
        )
        for pack in packs:
            yield pa.RecordBatch.from_pylist([file._asdict() for file in pack], FILES)
            for _ in pack:
                self._progress.advance("chunks")

    def _read(self) -> Iterator[SourceFile]:
        left = dict(self._places)
        for corpus in self._config.corpus:
            for entry, read in list_files(corpus, self._config.chunking.max_file_bytes):
                place = corpus.name, entry.path
                if digest := left.get(place):
                    file = read()
                    if isinstance(file, SourceFile) and _sha256(file.data) == digest:
                        del left[place]
                        yield file
        for source, path in left:
            raise SourceError(f"corpus {source!r}: {path} changed while it was read; run it again")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(
    folder: Path, by: str, files: Sequence[ReadFile], before: _Kept, cutting: _Cutting
) -> ChunkFile:
    """Write all chunks to a folder, in the place of those of the last time, if it can be written."""
    try:
        check_writable(folder)
        temporary = None
    except ConfigError:
        temporary = Path(tempfile.mkdtemp(prefix="freshstack-"))
        folder = temporary / folder.name
    with replace_folder(folder) as place:
        runs = [before.unchanged(files), sorted_batches(cutting.batches(), place)]
        sums = write_chunks(place / _CHUNKS, merged(runs))
        faults = [fault.model_dump() for fault in cutting.faults]
        about = {"cut_by": by, "sums": sums, "files": files, "faults": faults}
        (place / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        chunks = ChunkFile(place / _CHUNKS, sums)
        len(chunks)  # opens it: from here on another process may replace the folder
    chunks.place = folder / _CHUNKS
    if temporary:
        weakref.finalize(chunks, shutil.rmtree, temporary, ignore_errors=True)
    return chunks


# What a file's chunks, and what is known of it, depend on


def _cut_by(config: BuildConfig) -> str:
    """SHA-256 of what the chunks of a file depend on next to its content and its encoding.

    That is the settings, the code that cuts files, and the versions of the packages it uses.
    """
    packages = "tiktoken|tree-sitter.*|py3langid"
    code = code_sha256(("corpus", "languages.py", "lm/tokens.py"), packages)
    cut = config.chunking.max_tokens, config.chunking.boundaries
    return sha256_of([*cut, code, _languages(config)])


def _languages(config: BuildConfig) -> dict[str, tuple[str, ...]]:
    """By corpus, the languages that a document may be in."""
    return {
        corpus.name: (corpus.language,) if corpus.language else config.languages
        for corpus in config.corpus
    }


def _seen_files(config: BuildConfig, corpus: CorpusConfig) -> SeenFiles:
    """What was found in the files of a corpus, which is kept next to the indexes."""
    place = f"{sha256_of([corpus.name, str(corpus.path and corpus.path.resolve())])}.json"
    chosen = corpus.model_dump(mode="json", include={"include", "exclude", "keep", "pages"})
    commit = None
    if corpus.revision:
        if corpus.path is None:
            raise SourceError(f"corpus {corpus.name!r}: its repository has not been fetched")
        commit = find_commit(corpus.path, corpus.revision)
    depends_on = sha256_of([code_sha256(("",)), config.chunking.max_file_bytes, chosen, commit])
    return SeenFiles(config.chunks_folder / ".seen" / place, depends_on)


def commit_dates(config: BuildConfig) -> dict[str, str]:
    """When the commit of each corpus was made, by name; of corpora that are repositories."""
    dates = {}
    for corpus in config.corpus:
        if corpus.path is not None and corpus.revision is not None:
            dates[corpus.name] = commit_date(corpus.path, corpus.revision)
    return {name: date for name, date in dates.items() if date is not None}


@functools.cache
def code_sha256(places: tuple[str, ...], packages: str = ".*") -> str:
    """Fingerprint files and folders of this package, Python, and the versions of packages.

    Those are the packages that this one requires and whose names match.
    """
    root = Path(__file__).parents[1]
    paths = [root / place for place in places]
    files = [path for path in paths if path.is_file()]
    files += [path for folder in paths for path in sorted(folder.rglob("*")) if path.is_file()]
    required = {re.split(r"[^\w.-]", line)[0] for line in requires("freshstack_dspy") or ()}
    code = {path.relative_to(root).as_posix(): _sha256(path.read_bytes()) for path in files}
    return sha256_of(
        {
            "files": {name: digest for name, digest in code.items() if not name.endswith(".pyc")},
            "python": platform.python_version_tuple()[:2],
            "versions": installed(name for name in required if re.fullmatch(packages, name)),
        }
    )


# The index


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
        models=models,
        dimensions=config.index.dimensions,
        lexical=config.index.lexical,
        approximate_above=config.index.approximate_above,
        languages=config.languages or ENGLISH,
        k1=K1 if config.index.k1 is None else config.index.k1,
        b=B if config.index.b is None else config.index.b,
        progress=progress,
    )


def check_index(config: BuildConfig) -> None:
    """Reach the object store of an index before anything is cut or paid for.

    Raises:
        IndexingError: What is wrong with it, in one line.
    """
    if isinstance(config.index.path, Uri):
        Database(config.index.path / config.name).tables()


def check_retrievers(config: BuildConfig, chunks: int) -> None:
    """Check that there are enough chunks for a pool, before anything is paid for.

    Raises:
        IndexingError: They are too many for `lsa`.
    """
    if "lsa" in config.pool.names and chunks > MOST_CHUNKS:
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
