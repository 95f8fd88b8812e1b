"""Many files at once: in several processes where that pays."""

import functools
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from freshstack_dspy.chunking.chunks import chunk_file
from freshstack_dspy.chunking.tokens import count_tokens
from freshstack_dspy.records import Chunk, SourceFile

_WORTH_A_POOL = 16_000_000
"""Bytes: some seconds of work, against some tenths for the pool."""
_FILES_PER_TASK = 8


def chunk_files(
    files: Sequence[SourceFile], max_tokens: int, workers: int | None = None
) -> Iterator[list[Chunk]]:
    """Cut files into chunks, as `chunk_file` does; the result does not depend on `workers`.

    Args:
        files: What to cut.
        max_tokens: The most cl100k_base tokens in a chunk.
        workers: How many processes to use; 1 is this one alone. By default, one for each
            processor where there are many megabytes to cut and processes can be forked safely.
            Where they cannot (macOS, Windows, a program with threads), more than one must be
            asked for, from a script that has an `if __name__ == "__main__":` guard.

    Yields:
        The chunks of each file, in the order of `files`.

    Raises:
        ValueError: `max_tokens` is too small.
        UnicodeDecodeError: A file is not UTF-8.
    """
    if workers is None:
        large = sum(len(file.data) for file in files) >= _WORTH_A_POOL
        workers = (os.cpu_count() or 1) if large and _can_fork() else 1
    chunk = functools.partial(chunk_file, max_tokens=max_tokens)
    if workers <= 1 or len(files) <= 1:
        yield from map(chunk, files)
        return
    count_tokens("")  # loads the vocabulary, so that forked processes share it
    context = multiprocessing.get_context("fork" if _can_fork() else "spawn")
    pool = ProcessPoolExecutor(min(workers, len(files)), mp_context=context)
    try:
        yield from pool.map(chunk, files, chunksize=_FILES_PER_TASK)
    finally:
        pool.shutdown(cancel_futures=True)


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1
