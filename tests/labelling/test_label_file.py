"""Labels files and bodies that are damaged, and a disk that is really full."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import HumanLabel, read_labels
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.labelling.judged import Judged
from freshstack_dspy.labelling.label_file import LabelFile
from freshstack_dspy.labelling.tasks import Tasks
from tests.collection.small import write_small

ODD = [
    b"true",
    b"1.5",
    b"NaN",
    b'"\\ud800"',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"9" * 5000,
    b"\x00",
    b"\xff",
]
PIECES = st.sampled_from([*ODD, b"", b"\n", b'"', b",", b'"label":1,', b"support", b"]}"])


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    folder = tmp_path_factory.mktemp("labels") / "small"
    return Judged(write_small(folder))


def damaged(data: bytes, places: list[tuple[float, int, bytes]]) -> bytes:
    for share, length, piece in places:
        start = int(share * len(data))
        data = data[:start] + piece + data[start + length :]
    return data


PLACES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), PIECES), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(places=PLACES)
def test_a_damaged_file_is_refused_in_a_line_and_kept_or_else_read(
    tasks: Tasks, tmp_path_factory: pytest.TempPathFactory, places: list[tuple[float, int, bytes]]
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "labels.jsonl"
    given = [
        HumanLabel(
            query_id=one.query_id, nugget_id=str(one.nugget_id), chunk_id=str(one.chunk_id),
            label=1, annotator="ana", time="2026-11-23T10:00:00Z", note="a note",
        )
        for one in tasks.by_id.values()
    ]  # fmt: skip
    data = damaged(encode_records(given), places)
    path.write_bytes(data)

    fault = ""
    try:
        with closing(LabelFile(path, "ana", tasks.by_id, tasks.collection)) as file:
            assert data.startswith(path.read_bytes().removesuffix(b"\n"))
            file.put([given[0]])
    except CollectionError as error:
        fault = str(error)
    assert "\n" not in fault
    assert path.read_bytes() == data if fault else given[0] in read_labels(path)


@settings(max_examples=60, deadline=None)
@given(places=PLACES)
def test_a_damaged_body_is_labels_or_a_line(
    tasks: Tasks, places: list[tuple[float, int, bytes]]
) -> None:
    task = next(iter(tasks.by_id.values()))
    body = b'[{"kind": "support", "label": 1, "evidence": [[0, 2]], "note": "a note"}]'

    fault = ""
    try:
        assert encode_records(tasks.labels(task, damaged(body, places), annotator="ana"))
    except ConfigError as error:
        fault = str(error)
    assert "\n" not in fault
    assert len(fault) < 500


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_leaves_nothing(disk: Path, tmp_path: Path) -> None:
    write_small(tmp_path / "small")
    words = ["label", str(tmp_path / "small"), "--annotator", "ana", "--no-browser"]
    command = [sys.executable, "-m", "freshstack_dspy", *words]
    file = disk / "labels-ana.jsonl"
    with subprocess.Popen(command, cwd=disk, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base, token = process.stdout.readline().strip().split("/?token=")

            def post(number: int, note: str = "") -> int:
                label = {"kind": "support", "label": 1, "note": note}
                headers = {"X-Token": token}
                asked = httpx.post(f"{base}/api/tasks/{number}", json=[label], headers=headers)
                return asked.status_code

            assert (post(0), post(1, "x" * 5000)) == (200, 200)
            before = file.read_bytes()
            assert (post(2, "x" * 15000), post(1, "y" * 12000)) == (507, 507)
            assert file.read_bytes() == before
            assert post(2) == 200
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert file.read_bytes().startswith(before)
    assert [len(json.loads(line)["note"]) for line in file.read_text().splitlines()] == [0, 5000, 0]
    assert [one.name for one in disk.iterdir()] == [file.name]
