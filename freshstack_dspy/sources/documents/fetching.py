"""One command of git that talks to a remote: watched, with progress, and ended when it stalls."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from freshstack_dspy.sources.documents.git_program import Git

_STALLED = 300
"""Seconds without a word from git after which it is ended."""
_QUIET = 2
_BETWEEN = 0.5
_KEPT = 64 << 10
_LISTING = 16 << 20
_NOTE = re.compile(r"(?:remote: )?([A-Z][a-z]+ [a-z]+: +\d+%?)")


class Talk(NamedTuple):
    """What came of it."""

    ok: bool
    stdout: bytes
    stderr: bytes


def talk(git: Git, *words: str, progress: Callable[[str], None] | None = None) -> Talk:
    """Run a command of git that opens a connection.

    Args:
        git: Of the folder to work in.
        words: The command.
        progress: Told how far it is, from two seconds on.
    """
    process = subprocess.Popen(  # noqa: S603 - no shell, and no word begins with a dash but ours
        git.command("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", *words),
        env=git.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    watch = _Watch(process)
    output = _Output(process.stdout, watch)
    with process, watch:
        try:
            output.start()
            stderr = _listen(process.stderr, watch, progress)
            output.join()
            ok = process.wait() == 0
        finally:
            watch.end()
    if watch.stalled:
        return Talk(ok=False, stdout=b"", stderr=f"fatal: no word for {_STALLED} seconds".encode())
    return Talk(ok, bytes(output.data), stderr)


def _listen(stderr: IO[bytes], watch: "_Watch", progress: Callable[[str], None] | None) -> bytes:
    kept, told = b"", time.monotonic() + _QUIET - _BETWEEN
    while piece := os.read(stderr.fileno(), 4096):
        watch.heard()
        kept = (kept + piece)[-_KEPT:]
        notes = _NOTE.findall(piece.decode(errors="replace"))
        if progress and notes and time.monotonic() - told > _BETWEEN:
            told = time.monotonic()
            progress(notes[-1])
    return kept


class _Output(threading.Thread):
    """Collects what git writes, up to a limit."""

    def __init__(self, stdout: IO[bytes], watch: "_Watch") -> None:
        super().__init__(daemon=True)
        self._stdout = stdout
        self._watch = watch
        self.data = bytearray()

    def run(self) -> None:
        while piece := os.read(self._stdout.fileno(), 1 << 16):
            self._watch.heard()
            self.data += piece[: _LISTING - len(self.data)]


class _Watch(threading.Thread):
    """Ends a process, and what it started, when nothing has been heard of it for long."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._last = time.monotonic()
        self._over = threading.Event()
        self.stalled = False

    def __enter__(self) -> "_Watch":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join()

    def heard(self) -> None:
        self._last = time.monotonic()

    def run(self) -> None:
        while not self._over.wait(1):
            if time.monotonic() - self._last > _STALLED:
                self.stalled = True
                self.end()
                return

    def end(self) -> None:
        """Kill the process and its children, if they still run."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (AttributeError, ProcessLookupError, PermissionError):
                self._process.kill()
