"""Reading labels: each fault is one line that names file and line."""

from pathlib import Path

import pytest

from freshstack_dspy.calibration.labels import read_labels, write_labels
from freshstack_dspy.errors import CollectionError

from .people import label, synthetic_labels

LINE = '{"query_id":"1","nugget_id":"1_0","chunk_id":"a","label":1,"annotator":"ada"}'


def refused(path: Path) -> str:
    with pytest.raises(CollectionError) as caught:
        read_labels(path)
    said = str(caught.value)

    assert said.isprintable(), "one line"

    return said.removeprefix(str(path))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    labels = (*synthetic_labels(), label("é\u2028", "n", "c d", 3))
    path = tmp_path / "labels.jsonl"

    write_labels(labels, path)

    assert read_labels(path) == read_labels(str(path)) == labels


def test_blank_lines_windows_ends_and_a_byte_order_mark_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + LINE.encode() + b"\r\n\r\n")

    assert read_labels(path) == (label("1", "1_0", "a", 1),)


FAULTS = {
    "a missing field": (
        LINE.replace(',"annotator":"ada"', ""),
        (
            ":2: not a label: annotator: Field required; its fields are query_id, nugget_id, chunk_id, "
            "label, annotator, time, question, nugget, chunk"
        ),
    ),
    "an unknown field": (
        LINE.replace('"label"', '"lable"'),
        ":2: not a label: label: Field required;",
    ),
    "a label of words": (
        LINE.replace("1,", '"yes",'),
        ":2: not a label: label: Input should be a valid integer;",
    ),
    "a label that only looks like a number": (
        LINE.replace("1,", '"1",'),
        ":2: not a label: label: Input should be a valid integer;",
    ),
    "true": (
        LINE.replace("1,", "true,"),
        ":2: not a label: label: Input should be a valid integer;",
    ),
    "a negative label": (
        LINE.replace("1,", "-1,"),
        ":2: not a label: label: Input should be greater than or equal to 0;",
    ),
    "no JSON": ("1_0,a,1", ":2: not a label: line: Invalid JSON: "),
    "no object": ("[1]", ":2: not a label: line: Input should be an object;"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_with_file_and_line(tmp_path: Path, fault: str) -> None:
    line, said = FAULTS[fault]
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{LINE.replace('ada', 'bob')}\n{line}\n")

    assert refused(path).startswith(said)


def test_a_pair_that_one_person_labelled_twice_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{LINE}\n\n{LINE.replace('ada', 'bob')}\n{LINE}\n")

    assert refused(path) == (":4: 'ada' labelled this pair before, in line 1; keep one of the two")


def test_a_file_without_labels_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text("\n \n")

    assert refused(path) == ": there is no label in it"


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"query_id": "\xe9"}')

    for path in (tmp_path, tmp_path / "gone.jsonl", tmp_path / "latin.jsonl"):
        assert refused(path).startswith(": the labels cannot be read: ")


def test_a_file_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="the labels cannot be written"):
        write_labels(synthetic_labels(), tmp_path / "no" / "labels.jsonl")
