from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.formats.nuggetizer import assignment
from freshstack_dspy.records import Scale
from tests.collection.small import A, B, D, write_small
from tests.formats.loading import lines_of


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (Scale(name="binary"), "not support"),
        (Scale(name="support", threshold=2), "not partial support"),
        (Scale(name="support", threshold=1), "not partial support"),
        (Scale(name="graded_3", threshold=2), "not partial support support"),
        (Scale(name="graded_5", threshold=3), "not partial partial support support support"),
        (Scale(name="graded_5", threshold=1), "not support support support support support"),
    ],
)
def test_labels_in_the_words_of_nuggetizer(scale: Scale, expected: str) -> None:
    words = {"not": "not_support", "partial": "partial_support", "support": "support"}
    found = [assignment(label, scale) for label in range(len(expected.split()))]

    assert found == [words[word] for word in expected.split()]
    assert assignment(None, scale) == "failed"


def test_the_files_by_hand(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "nuggetizer", tmp_path / "out")
    first, second = lines_of(tmp_path / "out/nuggets.jsonl")
    assigned = lines_of(tmp_path / "out/assignments.jsonl")
    words = {
        (line["docid"], nugget["nugget_id"]): nugget["assignment"]
        for line in assigned
        for nugget in line["nuggets"]
    }

    assert (first["qid"], first["query"]) == ("12", "How? It fails.")
    assert second["nuggets"] == [
        {"text": "fact 123_0", "importance": "vital", "rated": False, "nugget_id": "123_0"}
    ]
    assert assigned[0]["candidate_text"] == "alpha"
    assert words == {
        (A, "12_0"): "support",
        (B, "12_0"): "support",
        (A, "12_1"): "not_support",
        (B, "12_1"): "support",
        (A, "123_0"): "support",
        (B, "123_0"): "not_support",
        (D, "123_0"): "failed",
    }
