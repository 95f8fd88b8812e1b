"""Many files at once: in several processes where that pays."""

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO

from freshstack_dspy.corpus.chunks import Cuts, Piece, chunk_file, chunks_at, cut_file
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import Chunk, SourceFile

_START = (
    "import json, sys; sys.path[:], *memory = json.loads(sys.argv[1]); "
    "from freshstack_dspy.corpus.parallel import serve; serve(*memory)"
)
_READY = b"ready\n"
_MEMORY, _MEMORY_PER_BYTE = 3 << 30, 400


class WorkerDiedError(Exception):
    """The process ended while it cut a file."""


class WorkerProcess:
    """One process that cuts one file at a time."""

    def __init__(self, memory: int = _MEMORY, memory_per_byte: int = _MEMORY_PER_BYTE) -> None:
        """Start it.

        Args:
            memory: Bytes of address space that it may have (Linux).
            memory_per_byte: How many more for each byte of the file that it cuts.

        Raises:
            IndexingError: It does not start.
        """
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(  # noqa: S603 - a program of ours, by this interpreter
            [sys.executable, "-P", "-c", _START, json.dumps([sys.path, memory, memory_per_byte])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **settings},
        )
        if self._output.readline() != _READY:
            self.stop()
            raise IndexingError(
                "a process for cutting files could not be started (its error stands above); "
                "chunk_files(…, workers=1) needs none"
            )

    def cut(self, file: SourceFile, max_tokens: int) -> Cuts | None:
        """Cut a file; None where that raises an error.

        Raises:
            WorkerDiedError: The process is gone, for want of memory or by a fault of a parser.
        """
        request = {
            "path": file.path,
            "encoding": file.encoding,
            "max_tokens": max_tokens,
            "size": len(file.data),
        }
        answer = b""
        with suppress(BrokenPipeError):
            self._input.write(json.dumps(request).encode() + b"\n" + file.data)
            self._input.flush()
            answer = self._output.readline()
        if not answer.endswith(b"\n"):
            raise WorkerDiedError
        found = json.loads(answer)
        return found and Cuts(found[0], [Piece(*piece) for piece in found[1]])

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):
            self._input.close()
        self._output.close()

    @property
    def _input(self) -> BinaryIO:
        assert self._process.stdin is not None
        return self._process.stdin  # type: ignore[return-value]

    @property
    def _output(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]


def serve(memory: int, memory_per_byte: int) -> None:
    """Cut the files that come by the standard input, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which gets it too, ends this process
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    count_tokens("")
    answers.write(_READY)
    answers.flush()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)  # tree-sitter's last words
    for line in requests:
        request = json.loads(line)
        data = requests.read(request["size"])
        _limit_memory(memory + memory_per_byte * len(data))
        file = SourceFile("", request["path"], data, None, request["encoding"])
        try:
            cuts: Cuts | None = cut_file(file, request["max_tokens"])
        except (ValueError, LookupError):  # the parent cuts it again, and raises this itself
            cuts = None
        answers.write(json.dumps(cuts).encode() + b"\n")
        answers.flush()


def _limit_memory(limit: int) -> None:
    """Let an allocation beyond a limit fail, where the system can (Linux)."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


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
