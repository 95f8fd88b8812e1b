"""Reading labels: each fault is one line that names file and line."""

import re
from pathlib import Path

import pytest

from freshstack_dspy import FreshstackError, HumanLabel, read_labels
from freshstack_dspy.calibration.labels import AnyLabel, labelled, read_label, seconds_a_label
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import (
    AnswerLabel,
    LabelTask,
    ListedNugget,
    NuggetLabel,
    NuggetList,
    Scale,
)
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B

from .people import label, synthetic_labels

PAIR = {"query_id": "1", "nugget_id": "1_0", "chunk_id": "a", "annotator": "ada"}
BY_ADA = {"query_id": "12", "annotator": "ada"}
LINE = '{"query_id":"1","nugget_id":"1_0","chunk_id":"a","label":1,"annotator":"ada"}'


def test_labels_are_read_in_their_order(tmp_path: Path) -> None:
    """Blank lines, Windows line ends and a byte order mark are passed over."""
    labels = (*synthetic_labels(), label("é\u2028", "n", "c d", 3))
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + encode_records(labels).replace(b"\n", b"\r\n\r\n"))

    assert read_labels(path) == read_labels(str(path)) == labels


def test_the_last_label_of_a_file_counts_and_two_files_may_not_differ(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    for file in files:
        file.write_text(f"{LINE}\n{LINE.replace('1,', '0,')}\n")

    [label] = read_labels(files[0])

    assert label.label == 0
    with pytest.raises(FreshstackError, match=r"two.jsonl:2: 'ada' labelled this pair before"):
        read_labels(files)


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
    ],
)
def test_a_fault_is_one_line_with_file_and_line(tmp_path: Path, second: str, said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{LINE}\n{second}\n")

    with pytest.raises(FreshstackError) as caught:
        read_labels(path)
    assert str(caught.value).isprintable(), "one line"
    assert str(caught.value).removeprefix(str(path)).startswith(said)


def test_a_file_holds_labels_of_every_kind_and_one_is_read_by_its_kind(tmp_path: Path) -> None:
    labels = (
        label("1", "1_0", "a", 2),
        HumanLabel(kind="answerability", **PAIR, label=1),
        NuggetLabel(
            query_id="1", nugget_id="1_0", annotator="ada", precise=True, grounded=True, vital=False
        ),
        NuggetList(query_id="1", annotator="ada", nuggets=(ListedNugget(text="It rains."),)),
        AnswerLabel(query_id="1", annotator="ada", run_id="bm25", agrees=True),
    )
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    first.write_bytes(encode_records(labels[:3]))
    second.write_bytes(encode_records(labels[3:]))

    assert read_labels([first, second]) == labels[:1]
    assert read_labels([first, second], "answerability") == labels[1:2]
    assert read_labels([first, second], "nugget_list") == labels[3:4]
    with pytest.raises(FreshstackError, match="no label of kind 'answer' in it, but answerab"):
        read_labels(first, "answer")
    with pytest.raises(FreshstackError, match="its kind is 'colour'; allowed: support, answerab"):
        read_label(b'{"kind": "colour"}', "x.jsonl:1")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (label("13", "12_0", A, 1), "there is no query '13'; the nearest is '123'"),
        (label("12", "123_0", A, 1), "there is no nugget of query 12 '123_0'; the nearest are"),
        (label("12", "12_0", A[:-1], 1), "there is no chunk 'docs/a.md_0_'; the nearest is"),
        (label("12", "12_0", A, 3), "the label is 3; allowed: 0 to 2"),
        (NuggetList(**BY_ADA, nuggets=(ListedNugget(nugget_id="7", text="x"),)), "query 12 '7';"),
        (NuggetList(**BY_ADA, nuggets=(ListedNugget(text="x", made_from=("7",)),)), "'7'; none"),
    ],
)
def test_a_label_of_something_else_is_a_fault(tmp_path: Path, wrong: AnyLabel, said: str) -> None:
    scale = PROVENANCE.model_copy(update={"scale": Scale(name="support")})
    small = write_collection(tmp_path / "small", CONTENTS, CHUNKS, scale)
    right, path = label("12", "12_0", B, 2), tmp_path / "labels.jsonl"
    path.write_bytes(encode_records([right, wrong, label("0", "0", "0", 0)]))

    with pytest.raises(FreshstackError, match=re.escape(said)) as caught:
        read_labels(path, collection=small)
    assert str(caught.value).startswith(f"{path}:2: ")

    path.write_bytes(encode_records([right]))
    assert read_labels(path, collection=small) == (right,)
    path.write_bytes(encode_records([label("0", "0", "0", 0)]))
    with pytest.raises(FreshstackError, match="no label is of 'small'; is it the right collection"):
        read_labels(path, collection=small)


def test_the_median_time_of_a_label_passes_over_breaks_and_what_has_no_time() -> None:
    def timed(annotator: str, *times: str | None) -> list[HumanLabel]:
        fields = enumerate(times)
        return [
            label("1", "1_0", f"c{n}", 1, annotator).model_copy(update={"time": t})
            for n, t in fields
        ]

    # every 20 seconds, after six labels a break of two hours
    ada = [f"2026-11-0{1}T{9 + 2 * (n > 5):02}:{n // 3:02}:{n % 3 * 20:02}Z" for n in range(12)]
    bob = ["2026-11-01T09:00:07+00:00", "2026-11-01T09:00:07+00:00", "2026-11-01T09:00:37"]
    assert seconds_a_label([*timed("ada", *ada), *timed("bob", *bob)]) == 20
    assert seconds_a_label(timed("ada", *ada[:9], None, "yesterday")) is None
    assert seconds_a_label(timed("ada", *[ada[0]] * 30)) is None


def test_labelled_tasks_are_counted_by_annotator() -> None:
    tasks = [
        LabelTask(kind="support", query_id="1", nugget_id="1_0", chunk_id="a"),
        LabelTask(kind="support", query_id="1", nugget_id="1_0", chunk_id="b"),
        LabelTask(kind="nuggets", query_id="1"),
        LabelTask(kind="answer", query_id="1", run_id="bm25"),
    ]
    labels: list[AnyLabel] = [
        label("1", "1_0", "a", 1, "ana"),
        label("1", "1_0", "c", 1, "ana"),
        NuggetList(query_id="1", annotator="ana", nuggets=()),
        AnswerLabel(query_id="1", annotator="ana", run_id="bm25", agrees=True),
        label("2", "1_0", "a", 1, "bob"),
    ]

    assert labelled(labels, tasks) == {"ana": 3, "bob": 0}
