import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.exports import assignment, export_collection
from freshstack_dspy.records import Scale
from tests.collection.exports.odd import TEXT, write_odd
from tests.collection.small import A, B, D, write_small

WORDS = ("support", "partial_support", "not_support", "failed")


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (Scale(), "not support"),
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

    assert first["query"] == "How? It fails."
    assert first["qid"] == "12"
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


def test_the_fields_are_those_that_nuggetizer_reads(tmp_path: Path) -> None:
    """Of its `cli/adapters.py`: keys and types, and the importance of every nugget."""
    collection = write_odd(tmp_path / "c")
    export_collection(collection, "nuggetizer", tmp_path / "out")
    for record in lines_of(tmp_path / "out/input.jsonl"):
        assert isinstance(record["query"]["qid"], str)
        assert isinstance(record["query"]["text"], str)
        assert [candidate["score"] for candidate in record["candidates"]] == [1, 1 / 2, 1 / 3]
        for candidate in record["candidates"]:
            assert isinstance(candidate["docid"], str)
            assert TEXT in candidate["doc"]["segment"]
    for record in lines_of(tmp_path / "out/nuggets.jsonl"):
        assert {"query", "qid", "nuggets"} <= record.keys()
        assert {nugget["importance"] for nugget in record["nuggets"]} == {"vital", "okay"}
    for record in lines_of(tmp_path / "out/assignments.jsonl"):
        assert {"text", "qid", "candidate_text", "docid", "nuggets"} <= record.keys()
        assert {nugget["assignment"] for nugget in record["nuggets"]} <= set(WORDS)
        assert all(nugget["importance"] in ("vital", "okay") for nugget in record["nuggets"])


def test_the_scores_that_nuggetizer_computes(tmp_path: Path) -> None:
    """`strict_all_score` and `all_score` of its `core/metrics.py`: labels 3 and 1 of threshold 2."""
    export_collection(write_odd(tmp_path / "c", ["1"]), "nuggetizer", tmp_path / "out")
    worth = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0, "failed": 0.0}
    scores = []
    for record in lines_of(tmp_path / "out/assignments.jsonl"):
        words = [nugget["assignment"] for nugget in record["nuggets"]]
        scores.append(
            (words.count("support") / len(words), sum(worth[word] for word in words) / len(words))
        )

    assert sorted(scores) == [(0.0, 0.0), (0.5, 0.5), (0.5, 0.75)]
