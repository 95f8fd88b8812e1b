"""Many files at once: in several processes where that pays."""

import os
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from freshstack_dspy.chunking.chunks import Cuts, chunk_file, chunks_at, cut_file
from freshstack_dspy.chunking.worker import WorkerDiedError, WorkerProcess
from freshstack_dspy.records import Chunk, SourceFile

_WORTH_A_POOL = 16_000_000
"""Bytes: seconds of work, against about one for the processes to start."""
_ATTEMPTS = 2


def chunk_files(
    files: Sequence[SourceFile], max_tokens: int, workers: int | None = None
) -> Iterator[list[Chunk]]:
    """Cut files into chunks, as `chunk_file` does; the result does not depend on `workers`.

    But for one thing: a file that ends the process that cuts it, twice, for want of memory or by
    a fault of a parser, is cut as plain text, where with one worker it ends this very process.

    Args:
        files: What to cut.
        max_tokens: The most cl100k_base tokens in a chunk.
        workers: How many processes to use; 1 is this one alone. By default, one for each
            processor where there are many megabytes to cut, and otherwise this one.

    Yields:
        The chunks of each file, in the order of `files`.

    Raises:
        ValueError: `max_tokens` is too small.
        UnicodeDecodeError: A file is not in its encoding.
        IndexingError: The processes do not start.
    """
    if workers is None:
        large = sum(len(file.data) for file in files) >= _WORTH_A_POOL
        workers = (os.cpu_count() or 1) if large else 1
    workers = min(workers, len(files))
    if workers <= 1:
        yield from (chunk_file(file, max_tokens) for file in files)
        return
    processes = _Processes(workers)
    with ThreadPoolExecutor(workers) as threads:
        try:
            cuts = threads.map(lambda file: processes.cut(file, max_tokens), files)
            for file, found in zip(files, cuts, strict=True):
                yield chunk_file(file, max_tokens) if found is None else chunks_at(file, found)
        finally:
            threads.shutdown(cancel_futures=True)
            processes.close()


class _Processes:
    """A fixed number of processes, each started when it is first needed."""

    def __init__(self, number: int) -> None:
        self._free: queue.SimpleQueue[WorkerProcess | None] = queue.SimpleQueue()
        self._number = number
        for _ in range(number):
            self._free.put(None)

    def cut(self, file: SourceFile, max_tokens: int) -> Cuts | None:
        worker = self._free.get()
        try:
            for _ in range(_ATTEMPTS):
                worker = worker or WorkerProcess()
                try:
                    return worker.cut(file, max_tokens)
                except WorkerDiedError:
                    worker.stop()
                    worker = None
            return cut_file(file, max_tokens, parse=False)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the processes; nothing is being cut any more."""
        for _ in range(self._number):
            worker = self._free.get()
            if worker:
                worker.stop()
