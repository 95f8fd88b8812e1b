"""A process that cuts files for another, in bounded memory.

Started by `WorkerProcess`, as `python -c`: it needs no `__main__` of the program to be imported,
and no fork of a process with threads. Requests and answers are lines of JSON; the data of a file
follows its request. Nothing is pickled.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import BinaryIO

from freshstack_dspy.chunking.chunks import Cuts, cut_file
from freshstack_dspy.chunking.packing import Piece
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.lm.cl100k import count_tokens
from freshstack_dspy.records import SourceFile

_START = (
    "import json, sys; sys.path[:], *memory = json.loads(sys.argv[1]); "
    "from freshstack_dspy.chunking.worker import serve; serve(*memory)"
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
