"""Reading labels: each fault is one line that names file and line."""

from pathlib import Path

import pytest

from freshstack_dspy.calibration.labels import read_label, read_labels
from freshstack_dspy.errors import FreshstackError
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import (
    AnswerLabel,
    Comment,
    HumanLabel,
    ListedNugget,
    NuggetLabel,
    NuggetList,
)

from .people import label, synthetic_labels

PAIR = {"query_id": "1", "nugget_id": "1_0", "chunk_id": "a", "annotator": "ada"}
LINE = '{"query_id":"1","nugget_id":"1_0","chunk_id":"a","label":1,"annotator":"ada"}'


def test_labels_are_read_in_their_order(tmp_path: Path) -> None:
    """Blank lines, Windows line ends and a byte order mark are passed over."""
    labels = (*synthetic_labels(), label("é\u2028", "n", "c d", 3))
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + encode_records(labels).replace(b"\n", b"\r\n\r\n"))

    assert read_labels(path) == read_labels(str(path)) == labels


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            LINE.replace(',"annotator":"ada"', ""),
            ":2: not a label: annotator: Field required; its fields are query_id, annotator, time",
        ),
        (LINE.replace("1,", '"1",'), ":2: not a label: label: Input should be a valid integer;"),
        (LINE.replace("1,", "true,"), ":2: not a label: label: Input should be a valid integer;"),
        (LINE.replace("1,", "-1,"), ":2: not a label: label: Input should be greater than or eq"),
        ("1_0,a,1", ":2: not a label: Invalid JSON: "),
        (f"\n{LINE}", ":3: 'ada' labelled this pair before, in "),
    ],
)
def test_a_fault_is_one_line_with_file_and_line(tmp_path: Path, second: str, said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{LINE}\n{second}\n")

    with pytest.raises(FreshstackError) as caught:
        read_labels(path)
    assert str(caught.value).isprintable(), "one line"
    assert str(caught.value).removeprefix(str(path)).startswith(said)


def test_a_file_that_is_not_there_or_empty_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n \n")

    for name, said in (("gone", "cannot be read"), ("empty", "there is no label of kind")):
        with pytest.raises(FreshstackError, match=f"{name}.jsonl: {said}"):
            read_labels(tmp_path / f"{name}.jsonl")


def test_a_file_holds_labels_of_every_kind_and_one_is_read_by_its_kind(tmp_path: Path) -> None:
    labels = (
        label("1", "1_0", "a", 2),
        HumanLabel(kind="answerability", **PAIR, label=1),
        NuggetLabel(
            query_id="1", nugget_id="1_0", annotator="ada", precise=True, grounded=True, vital=False
        ),
        NuggetList(query_id="1", annotator="ada", nuggets=(ListedNugget(text="It rains."),)),
        AnswerLabel(query_id="1", annotator="ada", run_id="bm25", agrees=True),
        Comment(query_id="1", annotator="ada", note="odd"),
        Comment(query_id="1", annotator="ada", note="odd"),
    )
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    first.write_bytes(encode_records(labels[:3]))
    second.write_bytes(encode_records(labels[3:]))

    assert read_labels([first, second]) == labels[:1]
    assert read_labels([first, second], "answerability") == labels[1:2]
    assert read_labels([first, second], "nugget_list") == labels[3:4]
    assert read_labels(second, "comment") == labels[5:]
    with pytest.raises(FreshstackError, match="no label of kind 'answer' in it, but answerab"):
        read_labels(first, "answer")
    with pytest.raises(FreshstackError, match="its kind is 'colour'; allowed: support, answerab"):
        read_label(b'{"kind": "colour"}', "x.jsonl:1")
