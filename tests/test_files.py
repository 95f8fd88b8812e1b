"""Files: canonical lines, JSON of others, and writing whole or not at all."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Query
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import (
    canonical_json,
    canonical_line,
    check_writable,
    json_file,
    only_writer,
    read_lines,
    write_file,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS)
def test_a_line_is_the_canonical_json_of_the_fields(one: str, other: str) -> None:
    """Pydantic writes it, and Python's own JSON is the oracle: any text, no space, no escape."""
    record = Query(query_id="q", title=one, body=other, answer="a", tags=(one, other))

    assert canonical_line(record) == canonical_json(record.model_dump()) + "\n"


def test_lines_are_bounded_and_a_byte_order_mark_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{}\n[]")
    heard: list[tuple[int, int]] = []

    assert list(read_lines(path, lambda *each: heard.append(each))) == [(1, b"{}\n"), (2, b"[]")]
    assert heard[-1] == (8, 8)
    monkeypatch.setattr("freshstack_dspy.files.LONGEST_LINE", 2)
    with pytest.raises(SourceError, match=r"lines\.jsonl:1: longer than"):
        list(read_lines(path))


@pytest.mark.parametrize("content", ["", "{", "NaN", "[" * 100_000])
def test_what_is_no_json_is_one_clean_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "value.json"
    path.write_text(content)

    with pytest.raises(SourceError, match=r"value\.json: not JSON"):
        json_file(path)


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    write_file(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, b"new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]


def test_a_file_brings_its_folders_and_clears_what_killed_writers_left(tmp_path: Path) -> None:
    """What is young, and what has another name, stays."""
    folder = tmp_path / "new/folder"
    write_file(folder / "out.json", "old")
    left = [folder / f".{name}.partial" for name in ("out.json.1", "other.json.1")]
    for path in left:
        path.write_text("half")
        os.utime(path, (0, 0))
    left += [folder / ".out.json.2.partial"]
    left[-1].write_text("half")
    write_file(folder / "out.json", "new")

    assert (folder / "out.json").read_text() == "new"
    assert [path.exists() for path in left] == [False, True, True]


HOLD = """
import sys
from pathlib import Path
from freshstack_dspy.files import only_writer
held = only_writer(Path(sys.argv[1]), "the other")
held.__enter__()
"""


@contextmanager
def running(code: str, path: Path) -> Iterator[int]:
    """A process that runs some Python and then waits until it is killed."""
    wait = "\nprint('ready', flush=True); import time; time.sleep(600)"
    command = [sys.executable, "-c", code + wait, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_one_process_writes_at_a_time_and_a_killed_one_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with running(HOLD, path) as pid, pytest.raises(ConfigError) as refused:
        only_writer(path, "we").__enter__()
    assert f"{path} is being written by the other (process {pid} on " in str(refused.value)

    with only_writer(path, "we"), pytest.raises(ConfigError, match="being written by we"):
        only_writer(path, "we too").__enter__()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x" * 240, "file/out"])
def test_what_cannot_be_written_is_found_before_it_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be written"):
        check_writable(tmp_path / name)
