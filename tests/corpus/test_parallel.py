"""Many files, in one process and in several."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from freshstack_dspy.corpus import parallel
from freshstack_dspy.corpus.chunks import chunk_file, cut_file
from freshstack_dspy.corpus.parallel import WorkerDiedError, WorkerProcess, chunk_files
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.records import SourceFile

FILES = [
    SourceFile("lib", f"{number}.py", f"def f{number}():\n    return 'é'\n\n\n".encode() * number)
    for number in range(20)
]
OTHERS = [
    SourceFile("lib", "a.txt", ("größer als\n" * 60).encode("utf-16-le"), "v1", "utf-16-le"),
    SourceFile("lib", "a.ipynb", b'{"cells": [{"source": "x = 1"}]}', None, "ipynb"),
    SourceFile("lib", "b.ipynb", b'{"cells": [', None, "ipynb"),
]


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_chunks_come_in_the_order_of_the_files(workers: int | None) -> None:
    files = [*FILES, *OTHERS]

    assert list(chunk_files(files, 64, workers)) == [chunk_file(file, 64) for file in files]


def test_little_is_cut_without_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    assert len(list(chunk_files(FILES, 64))) == 20


def test_much_is_cut_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this process has threads, as under a progress bar."""
    monkeypatch.setattr(parallel, "_WORTH_A_POOL", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert list(chunk_files(FILES, 64)) == [chunk_file(file, 64) for file in FILES]
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_file_is_raised(workers: int) -> None:
    with pytest.raises(UnicodeDecodeError):
        list(chunk_files([*FILES, SourceFile("lib", "x", b"\xff")], 64, workers))


@pytest.mark.slow
def test_the_chunks_of_some_files_may_be_enough() -> None:
    reading = chunk_files(FILES, 64, 2)

    assert next(reading) == []
    reading.close()  # type: ignore[attr-defined]


def test_no_files_give_no_chunks() -> None:
    assert list(chunk_files([], 64)) == []


def test_a_file_that_ends_its_process_is_cut_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the fault; here the process is ended from outside, at each attempt on one file."""
    whole_cut = WorkerProcess.cut

    def cut(self: WorkerProcess, file: SourceFile, max_tokens: int) -> object:
        if file.path == "9.py":
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        return whole_cut(self, file, max_tokens)

    monkeypatch.setattr(WorkerProcess, "cut", cut)

    before, chunks, after = chunk_files(FILES[8:11], 64, 2)

    assert [before, after] == [chunk_file(FILES[8], 64), chunk_file(FILES[10], 64)]
    cuts = cut_file(FILES[9], 64, parse=False)
    assert [(one.start_byte, one.end_byte, one.tokens) for one in chunks] == cuts.pieces


@pytest.mark.slow
def test_a_process_out_of_memory_is_told_from_an_error() -> None:
    """8 MB of tokens do not fit into what a process may have beside itself, when that is little."""
    file = SourceFile("lib", "a.py", b"x = 1\n" * 1_500_000)
    worker = WorkerProcess(memory=1 << 20, memory_per_byte=0)
    try:
        with pytest.raises(WorkerDiedError):
            worker.cut(file, 64)
    finally:
        worker.stop()


def test_a_process_that_does_not_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])

    with pytest.raises(IndexingError, match="could not be started"):
        WorkerProcess()

    assert "ModuleNotFoundError" in capfd.readouterr().err
