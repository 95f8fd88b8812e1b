"""From the configured corpora to chunks, with every skipped file accounted for."""

from typing import NamedTuple

from freshstack_dspy.chunking import chunk_files
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.recipes.progress import Progress
from freshstack_dspy.records import Chunk, SkippedFile, SourceFile
from freshstack_dspy.sources import read_files

_REASONS_SHOWN = 3


class CutCorpus(NamedTuple):
    """All chunks of a build's corpora, and the files that gave none."""

    chunks: list[Chunk]
    skipped: list[SkippedFile]


def cut_corpus(config: BuildConfig, progress: Progress) -> CutCorpus:
    """Read and chunk every corpus of a configuration.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
    """
    chunks: list[Chunk] = []
    skipped: list[SkippedFile] = []
    for corpus in config.corpus:
        files: list[SourceFile] = []
        passed_over: list[SkippedFile] = []
        for entry in read_files(corpus, config.chunking.max_file_bytes):
            (files if isinstance(entry, SourceFile) else passed_over).append(entry)  # type: ignore[arg-type]
        if not files:
            raise SourceError(
                f"corpus {corpus.name!r}: no file of {corpus.path} can be indexed"
                f"{_why(passed_over)}; name a folder with text or code in it"
            )
        step = f"chunks of {corpus.name}"
        progress.start(step, len(files))
        before = len(chunks)
        for of_file in chunk_files(files, config.chunking.max_tokens):
            chunks += of_file
            progress.advance(step)
        progress.finish(step, f"{len(chunks) - before} chunks, {len(passed_over)} files skipped")
        skipped += passed_over
    return CutCorpus(chunks, skipped)


def _why(skipped: list[SkippedFile]) -> str:
    reasons = sorted({entry.reason for entry in skipped})
    if not reasons:
        return ": it holds none"
    shown = "; ".join(reasons[:_REASONS_SHOWN])
    return f" ({len(skipped)} skipped: {shown}{'; …' if len(reasons) > _REASONS_SHOWN else ''})"
