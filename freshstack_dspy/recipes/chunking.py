"""From the configured corpora to chunks, in a file that is kept next to the indexes.

Nothing holds a corpus: files are read one after the other, cut in batches on all cores, and sorted
on disk. Only the files that changed are cut again.
"""

import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.config import BuildConfig, CorpusConfig
from freshstack_dspy.corpus.files import ReadFile, SeenFiles, list_files, look_at_files
from freshstack_dspy.corpus.git import commit_date, find_commit
from freshstack_dspy.corpus.parquet import ChunkFile, ChunkSums, write_chunks
from freshstack_dspy.corpus.sorting import merged, sorted_batches
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import CollectionError, ConfigError, SourceError
from freshstack_dspy.files import check_writable, existing_folder, replace_folder
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.workers import packed
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.code import code_sha256, file_sha256
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile
from freshstack_dspy.stored.counts import count_kinds, listed

if TYPE_CHECKING:
    import pyarrow as pa

_REASONS_SHOWN = 3
_BATCH_FILES, _BATCH_BYTES = 256, 1 << 20
"""Files, and their bytes, that are cut together, in about a second."""
_FEW_FAULTS, _SHARE_OF_FAULTS = 10, 0.05
"""So many files of a corpus may be left out because they cannot be cut."""
_CHUNKS, _ABOUT = "chunks.parquet", "chunks.json"


class IndexedFile(NamedTuple):
    """A file of the corpus, as it was when its chunks were indexed."""

    source: str
    path: str
    sha256: str
    """The hash of the file's bytes, in hexadecimal."""
    encoding: str = "utf-8"
    """How they are read; see `SourceFile.encoding`."""


class ChunkedCorpora(NamedTuple):
    """All chunks of a configuration's corpora, and what they were cut from."""

    chunks: ChunkFile
    files: Sequence[IndexedFile] = ()
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
    found = _look(config, progress)
    folder, by = config.chunks_folder / ".chunks" / config.name, cut_by(config)
    before = _Kept.read(existing_folder(folder), by)
    known = {file.content for file in before.files}
    changed = {
        (file.source, file.path): file.sha256 for file in found.read if file.content not in known
    }
    progress.start("chunks", len(changed))
    if before.files == found.read:
        chunks, note = before.chunks, f"{len(before.chunks):,} unchanged"
        found.skipped.extend(before.faults)
    else:
        cutting = _Cutting(config, changed, progress)
        faults = before.faults_in(found.read)
        chunks = _write(folder, by, found.read, before, cutting, faults)
        found.skipped.extend((*faults, *cutting.faults))
        unchanged = len(chunks) - cutting.made
        note = f"{cutting.made:,} of {len(changed):,} files" if changed or not before.files else ""
        note += f"{'; ' * bool(note)}{unchanged:,} unchanged" if before.files else ""
    progress.finish("chunks", note)
    left_out = {(file.source, file.path) for file in found.skipped}
    files = [
        IndexedFile(*file.content)
        for file in found.read
        if (file.source, file.path) not in left_out
    ]
    return ChunkedCorpora(chunks, files, found.skipped, found.licences)


class _Found(NamedTuple):
    """What is in the files of the corpora."""

    read: list[ReadFile]
    skipped: list[SkippedFile]
    licences: list[LicenceFile]


def _look(config: BuildConfig, progress: Progress) -> _Found:
    most, kept = config.chunking.max_file_bytes, config.chunks_folder
    found = _Found([], [], [])
    progress.start("files", len(config.corpus))
    for corpus in config.corpus:
        read, skipped = len(found.read), len(found.skipped)
        for file in look_at_files(corpus, most, seen_files(corpus, most, kept)):
            if isinstance(file, ReadFile):
                found.read.append(file)
            elif isinstance(file, SkippedFile):
                found.skipped.append(file)
            else:
                found.licences.append(file)
        if len(found.read) == read:
            raise _nothing_in(corpus, found.skipped[skipped:])
        progress.advance("files")
    skipped_kinds = listed(count_kinds(found.skipped))
    note = f"{len(found.read):,} to index" + (f"; skipped: {skipped_kinds}" * bool(skipped_kinds))
    progress.finish("files", note)
    return found


def _nothing_in(corpus: CorpusConfig, skipped: Sequence[SkippedFile]) -> SourceError:
    place = corpus.path or corpus.url or corpus.package or "documents"
    reasons = sorted({entry.reason for entry in skipped})
    shown = "; ".join(reasons[:_REASONS_SHOWN]) + "; …" * (len(reasons) > _REASONS_SHOWN)
    why = f" ({len(skipped)} skipped: {shown})" if skipped else ": it holds none"
    return SourceError(
        f"corpus {corpus.name!r}: no file of {place} can be indexed{why}; name one with text "
        "or code in it"
    )


def check_faults(faults: Sequence[SkippedFile], files: Mapping[str, int]) -> None:
    """Check that few of the files of each source cannot be cut.

    Raises:
        SourceError: Too many cannot be cut: something else is wrong.
    """
    for source, count in Counter(one.source for one in faults).items():
        if count > max(_FEW_FAULTS, _SHARE_OF_FAULTS * files[source]):
            reasons = Counter(one.reason for one in faults if one.source == source)
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
                faults = [SkippedFile.model_validate(one) for one in about["faults"]]
                return cls(chunks, [ReadFile(*file) for file in about["files"]], faults)
        return cls(ChunkFile.holding([]), [], [])

    def faults_in(self, files: Iterable[ReadFile]) -> list[SkippedFile]:
        """Give the faults of those files that are as they were."""
        known = {file.content for file in self.files}
        unchanged = {(file.source, file.path) for file in files if file.content in known}
        return [one for one in self.faults if (one.source, one.path) in unchanged]

    def unchanged(self, files: Iterable[ReadFile]) -> Iterator["pa.Table"]:
        """Give the chunks of those files that are as they were; their revision may be another."""
        import pyarrow as pa

        known = {file.content for file in self.files}
        revisions = {
            (file.source, file.path): file.revision for file in files if file.content in known
        }
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
    ) -> None:
        """Take the files by source and path, each with the hash of what is in it."""
        self._config, self._places, self._progress = config, places, progress
        self.made = 0
        """How many chunks were cut."""
        self.faults: list[SkippedFile] = []
        """The files that could not be."""

    def batches(self) -> Iterator["pa.RecordBatch"]:
        """Give the chunks of the files, in the order of these."""
        from freshstack_dspy.batches import chunk_batch

        config = self._config
        cut = partial(
            chunk_batch,
            max_tokens=config.chunking.max_tokens,
            languages={one.name: _languages_of(one, config) for one in config.corpus},
        )
        cut_all = mapper(self._config.engine)
        files = Counter(source for source, _ in self._places)
        for batch in cut_all(cut, self._files()) if self._places else ():
            whole = batch["fault"].is_null()
            for row in batch.filter(batch["fault"].is_valid()).to_pylist():
                place = {"source": row["source"], "path": row["path"]}
                self.faults.append(SkippedFile(**place, kind="unreadable", reason=row["fault"]))
            if whole.true_count < len(batch):
                check_faults(self.faults, files)
            cut_well = batch.filter(whole).drop_columns("fault")
            self.made += len(cut_well)
            yield cut_well

    def _files(self) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from freshstack_dspy.batches import FILES

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
                if digest := left.pop((corpus.name, entry.path), None):
                    file = read()
                    if not isinstance(file, SourceFile) or sha256(file.data).hexdigest() != digest:
                        raise _changed(corpus.name, entry.path)
                    yield file
        for place in left:
            raise _changed(*place)


def _changed(source: str, path: str) -> SourceError:
    return SourceError(f"corpus {source!r}: {path} changed while it was read; run it again")


def _write(
    folder: Path,
    by: str,
    read: Sequence[ReadFile],
    before: _Kept,
    cutting: _Cutting,
    faults: Sequence[SkippedFile],
) -> ChunkFile:
    """Write all chunks to a folder, in the place of those of the last time, if it can be written."""
    try:
        check_writable(folder)
        temporary = None
    except ConfigError:
        temporary = Path(tempfile.mkdtemp(prefix="freshstack-"))
        folder = temporary / folder.name
    with replace_folder(folder) as place:
        runs = [before.unchanged(read), sorted_batches(cutting.batches(), place)]
        sums = write_chunks(place / _CHUNKS, merged(runs))
        all_faults = [one.model_dump() for one in (*faults, *cutting.faults)]
        about = {"cut_by": by, "sums": sums, "files": read, "faults": all_faults}
        (place / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        chunks = ChunkFile(place / _CHUNKS, sums)
        len(chunks)  # opens it: from here on another process may replace the folder
    chunks.place = folder / _CHUNKS
    if temporary:
        weakref.finalize(chunks, shutil.rmtree, temporary, ignore_errors=True)
    return chunks


# What a file's chunks, and what is known of it, depend on


def cut_by(config: BuildConfig) -> str:
    """SHA-256 of what the chunks of a file depend on next to its content and its encoding.

    That is the settings, the code that cuts files, and the versions of the packages it uses.
    """
    package = Path(__file__).parents[1]
    code = [code_sha256("corpus", "tiktoken|tree-sitter.*|py3langid")]
    code += [file_sha256(package / name) for name in ("languages.py", "lm/tokens.py")]
    languages = {one.name: _languages_of(one, config) for one in config.corpus}
    return sha256_of(
        {"max_tokens": config.chunking.max_tokens, "code": code, "languages": languages}
    )


def _languages_of(corpus: CorpusConfig, config: BuildConfig) -> tuple[str, ...]:
    """Those that a document of a corpus may be in."""
    return (corpus.language,) if corpus.language else config.languages


def seen_files(corpus: CorpusConfig, max_file_bytes: int, kept: Path) -> SeenFiles:
    """What was found in the files of a corpus, which is kept next to the indexes."""
    place = f"{sha256_of([corpus.name, str(corpus.path and corpus.path.resolve())])}.json"
    commit = commit_of(corpus) if corpus.revision else None
    of = sha256_of([code_sha256(), max_file_bytes, chosen_by(corpus), commit])
    return SeenFiles(kept / ".seen" / place, of)


def chosen_by(corpus: CorpusConfig) -> dict[str, Any]:
    """Which files of a corpus are read, and how."""
    return corpus.model_dump(mode="json", include={"include", "exclude", "keep", "pages"})


def commit_of(corpus: CorpusConfig) -> str | None:
    """The commit of the revision of a corpus."""
    if corpus.path is None:
        raise SourceError(f"corpus {corpus.name!r}: its repository has not been fetched")
    return find_commit(corpus.path, corpus.revision or "")


def commit_dates(config: BuildConfig) -> dict[str, str]:
    """When the commit of each corpus was made, by name; of corpora that are repositories."""
    dates = {}
    for corpus in config.corpus:
        if corpus.path is not None and corpus.revision is not None:
            dates[corpus.name] = commit_date(corpus.path, corpus.revision)
    return {name: date for name, date in dates.items() if date is not None}
