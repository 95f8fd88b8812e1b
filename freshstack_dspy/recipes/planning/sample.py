"""A sample of a corpus: how many chunks it will give, and how long they are, in seconds."""

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.chunks import chunk_files
from freshstack_dspy.recipes.corpus import read_corpora
from freshstack_dspy.recipes.planning.estimate import measure_chunks, spread
from freshstack_dspy.recipes.planning.expected_judging import ChunkSizes
from freshstack_dspy.recipes.session import Progress

_MOST_FILES = 128
_MOST_BYTES = 2_500_000
"""About two seconds of chunking."""


def sample_corpus(config: BuildConfig, progress: Progress) -> ChunkSizes:
    """Read every corpus of a configuration and chunk files that are evenly spread over it.

    A corpus of few bytes in few files is chunked whole, and then the figures are exact.

    Raises:
        SourceError: A corpus cannot be read, or none of its files can be indexed.
    """
    files = read_corpora(config, progress).files
    total = sum(len(file.data) for file in files)
    chosen = spread(files, min(_MOST_FILES, max(1, len(files) * _MOST_BYTES // max(1, total))))
    progress.start("sample", len(chosen))
    chunks = []
    for of_file in chunk_files(chosen, config.chunking.max_tokens):
        chunks += of_file
        progress.advance("sample")
    progress.finish("sample", f"{len(chunks):,} chunks of {len(chosen):,} files")
    sampled = sum(len(file.data) for file in chosen)
    return measure_chunks(chunks, round(len(chunks) * total / sampled))
