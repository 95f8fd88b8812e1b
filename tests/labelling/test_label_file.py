"""Labels files and bodies that are damaged."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import HumanLabel, read_labels
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.labelling.judged import JudgmentTasks
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
    return JudgmentTasks(write_small(folder))


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
