"""Many files."""

import multiprocessing

import pytest

from freshstack_dspy.chunking import chunk_file, chunk_files, parallel
from freshstack_dspy.records import SourceFile

FILES = [
    SourceFile("lib", f"{number}.py", f"def f{number}():\n    return 'é'\n\n\n".encode() * number)
    for number in range(20)
]


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_chunks_come_in_the_order_of_the_files(workers: int | None) -> None:
    expected = [chunk_file(file, 64) for file in FILES]

    assert list(chunk_files(FILES, 64, workers)) == expected


def test_little_is_cut_without_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(multiprocessing, "get_context", refuse)

    assert len(list(chunk_files(FILES, 64))) == 20


def test_much_is_cut_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH_A_POOL", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    assert list(chunk_files(FILES, 64)) == [chunk_file(file, 64) for file in FILES]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_file_is_raised(workers: int) -> None:
    with pytest.raises(UnicodeDecodeError):
        list(chunk_files([*FILES, SourceFile("lib", "x", b"\xff")], 64, workers))


def test_the_chunks_of_some_files_may_be_enough() -> None:
    reading = chunk_files(FILES, 64, 2)

    assert next(reading) == []
    reading.close()  # type: ignore[attr-defined]


def test_no_files_give_no_chunks() -> None:
    assert list(chunk_files([], 64)) == []
