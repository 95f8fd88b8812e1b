"""From the configured corpora to chunks, with every file accounted for."""

from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.collection.counts import count_kinds, listed
from freshstack_dspy.config import BuildConfig, CorpusConfig
from freshstack_dspy.corpus.chunks import chunk_files
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.errors import SourceError
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.records import Chunk, LicenceFile, SkippedFile, SourceFile

_REASONS_SHOWN = 3


class Reading(NamedTuple):
    """Files as they were read: those to index, and the others."""

    files: list[SourceFile]
    skipped: list[SkippedFile]
    licences: list[LicenceFile]


def read_corpora(config: BuildConfig, progress: Progress) -> Reading:
    """Read every corpus of a configuration into memory.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
    """
    reading = Reading([], [], [])
    progress.start("files", len(config.corpus))
    for corpus in config.corpus:
        _read(corpus, config.chunking.max_file_bytes, reading)
        progress.advance("files")
    skipped = listed(count_kinds(reading.skipped))
    progress.finish(
        "files", f"{len(reading.files):,} to index" + (f"; skipped: {skipped}" if skipped else "")
    )
    return reading


def cut_files(files: Sequence[SourceFile], config: BuildConfig, progress: Progress) -> list[Chunk]:
    """Cut files into chunks."""
    chunks: list[Chunk] = []
    progress.start("chunks", len(files))
    for of_file in chunk_files(files, config.chunking.max_tokens):
        chunks += of_file
        progress.advance("chunks")
    progress.finish("chunks", f"{len(chunks):,} of {len(files):,} files")
    return chunks


def _read(corpus: CorpusConfig, max_file_bytes: int, reading: Reading) -> None:
    before, skipped_before = len(reading.files), len(reading.skipped)
    for entry in read_files(corpus, max_file_bytes):
        if isinstance(entry, SourceFile):
            reading.files.append(entry)
        elif isinstance(entry, SkippedFile):
            reading.skipped.append(entry)
        else:
            reading.licences.append(entry)
    if len(reading.files) == before:
        place = corpus.path or corpus.url or corpus.package
        raise SourceError(
            f"corpus {corpus.name!r}: no file of {place} can be indexed"
            f"{_why(reading.skipped[skipped_before:])}; name one with text or code in it"
        )


def _why(skipped: Sequence[SkippedFile]) -> str:
    reasons = sorted({entry.reason for entry in skipped})
    if not reasons:
        return ": it holds none"
    shown = "; ".join(reasons[:_REASONS_SHOWN])
    return f" ({len(skipped)} skipped: {shown}{'; …' if len(reasons) > _REASONS_SHOWN else ''})"
