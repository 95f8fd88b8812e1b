"""FreshStack, CRUX and nuggetizer."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.imports import NO_TEXT
from freshstack_dspy.collection.imports import import_collection
from freshstack_dspy.errors import CollectionError, SourceError

from .foreign import crux, freshstack, freshstack_row, json_lines, nuggetizer


def test_an_official_record_keeps_ids_labels_and_bytes(tmp_path: Path) -> None:
    collection = import_collection("freshstack", freshstack(tmp_path / "f"), tmp_path / "c")

    (query,) = collection.queries
    assert (
        query.query_id, query.answer_id, query.asked_at, query.tags,
    ) == ("7", "9", "2024-01-02", ("api",))  # fmt: skip
    assert [(judgment.chunk_id, judgment.label) for judgment in collection.judgments] == [
        ("docs/a b.md_0_5", 1),
        ("docs/c.md_3_9", 0),
    ]
    chunk = collection.chunk("docs/c.md_3_9")
    assert (
        chunk.start_byte, chunk.end_byte, chunk.revision, chunk.url,
    ) == (3, 9, "c0ffee", "https://x.org/c")  # fmt: skip


def test_a_single_record_without_texts_says_which_texts_lack(tmp_path: Path) -> None:
    nuggets = freshstack_row()["nuggets"]
    path = json_lines(tmp_path / "f.json", [{"query_id": "7", "nuggets": nuggets}])

    collection = import_collection("freshstack", path, tmp_path / "c")

    assert collection.queries[0].text == ""
    assert [chunk.text for chunk in collection.chunks()] == ["", ""]
    assert [skipped.reason for skipped in collection.skipped] == [NO_TEXT, NO_TEXT]
    assert collection.manifest.counts.skipped == {"missing": 2}


def test_a_synthetic_query_stays_marked(tmp_path: Path) -> None:
    row = freshstack_row(metadata={"origin": "synthetic", "tags": []})
    collection = import_collection("freshstack", freshstack(tmp_path / "f", [row]), tmp_path / "c")

    assert collection.queries[0].origin == "synthetic"


def test_a_chunk_in_both_lists_is_refused(tmp_path: Path) -> None:
    row = freshstack_row()
    row["nuggets"][0]["non_relevant_corpus_ids"].append("docs/a b.md_0_5")

    with pytest.raises(SourceError, match=r"nugget '7_0' names chunk 'docs/a b.md_0_5' twice"):
        import_collection("freshstack", freshstack(tmp_path / "f", [row]), tmp_path / "c")


def test_two_queries_cannot_share_a_nugget_id(tmp_path: Path) -> None:
    rows = [freshstack_row("7"), {**freshstack_row("8"), "nuggets": freshstack_row("7")["nuggets"]}]

    with pytest.raises(SourceError, match=r"queries\.jsonl:2: nugget '7_0' .*queries\.jsonl:1"):
        import_collection("freshstack", freshstack(tmp_path / "f", rows), tmp_path / "c")


def test_ratings_become_labels_from_0_to_5_with_threshold_3(tmp_path: Path) -> None:
    collection = import_collection("crux", crux(tmp_path / "x"), tmp_path / "c")

    assert (collection.manifest.scale.name, collection.manifest.scale.threshold) == ("graded_5", 3)
    assert [(judgment.nugget_id, judgment.label) for judgment in collection.judgments] == [
        ("t-0_1", 5),
        ("t-0_2", 3),
        ("t-0_3", 0),
    ]
    assert collection.queries[0].answer == "It was."


@pytest.mark.parametrize(("rating", "status"), [(-1, "unparsed"), (-2, "failed"), ("-2", "failed")])
def test_a_failed_rating_is_no_label(tmp_path: Path, rating: Any, status: str) -> None:
    path = crux(tmp_path / "x", rating=(5, rating, 0))
    collection = import_collection("crux", path, tmp_path / "c")

    failed = collection.judgments[1]
    assert (None, status) == (failed.label, failed.status)
    assert collection.manifest.counts.unlabelled == 1


@pytest.mark.parametrize("rating", [(5, 6, 0), (5, -3, 0), (5, True, 0), (5, "7", 0), (5, 3)])
def test_what_is_no_rating_is_refused(tmp_path: Path, rating: Any) -> None:
    with pytest.raises(SourceError, match=r"judgements\.jsonl:1: .*rating"):
        import_collection("crux", crux(tmp_path / "x", rating=rating), tmp_path / "c")


def test_a_question_that_is_none_is_a_failure_and_no_nugget(tmp_path: Path) -> None:
    path = crux(tmp_path / "x", questions=("Who?", None, "NA"))
    collection = import_collection("crux", path, tmp_path / "c")

    assert [nugget.nugget_id for nugget in collection.nuggets] == ["t-0_1"]
    assert [failure.step for failure in collection.failures] == ["nuggets", "nuggets"]


def test_ratings_by_rank_belong_to_the_chunks_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    json_lines(folder / "subquestions.json", [{"t": ["Who?", "What?"]}])
    json_lines(folder / "ratings.json", [{"t": [[5, 0], [0, 4]]}])
    (folder / "bm25.run").write_text("t Q0 p:1#2 2 0.5 r\nt Q0 p:0#1 1 1.0 r\n")

    collection = import_collection("crux", folder, tmp_path / "c")

    labels = {(one.nugget_id, one.chunk_id): one.label for one in collection.judgments}
    assert labels["t_1", "p:0#1"] == 5
    assert labels["t_2", "p:1#2"] == 4


def test_ratings_of_another_run_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    json_lines(folder / "subquestions.json", [{"t": ["Who?"]}])
    json_lines(folder / "ratings.json", [{"t": [[5], [0]]}])
    (folder / "bm25.run").write_text("t Q0 p 1 1.0 r\n")

    with pytest.raises(SourceError, match="ratings for more ranks than the 1 of the run"):
        import_collection("crux", folder, tmp_path / "c")


@pytest.mark.parametrize(
    ("assignment", "label"),
    [("support", 2), ("partial_support", 1), ("not_support", 0), ("failed", None)],
)
def test_assignments_become_labels_of_support(
    tmp_path: Path, assignment: str, label: int | None
) -> None:
    path = nuggetizer(tmp_path / "n", assignment=assignment)
    collection = import_collection("nuggetizer", path, tmp_path / "c")

    (judgment,) = collection.judgments
    assert ("q_0", "d", label) == (judgment.nugget_id, judgment.chunk_id, judgment.label)
    assert collection.nuggets[0].importance == "vital"
    assert collection.chunk("d").text == "alpha"


def test_a_failed_importance_is_none_and_counted(tmp_path: Path) -> None:
    path = nuggetizer(tmp_path / "n", importance="failed")
    collection = import_collection("nuggetizer", path, tmp_path / "c")

    assert None is collection.nuggets[0].importance
    assert collection.manifest.counts.failures == {"importance": {"failed": 1}}


def test_assignments_to_answers_are_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", [{"qid": "q", "run_id": "r", "nuggets": []}])

    with pytest.raises(SourceError, match="answer of a run, which is no passage"):
        import_collection("nuggetizer", path, tmp_path / "c")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"format": "trec"}, "'trec' is no format of import; allowed: freshstack, beir"),
        ({"threshold": 3, "format": "freshstack"}, "threshold is 3; allowed: 1 to 1"),
        ({"split": "test", "format": "crux"}, "split is for beir alone"),
        ({"missing": "guess", "format": "crux"}, "allowed: refuse, drop"),
    ],
)
def test_words_that_are_not_allowed_are_named(
    tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(CollectionError, match=said):
        import_collection(path=tmp_path, out=tmp_path / "c", **words)


def test_the_manifest_has_the_hashes_of_what_was_read(tmp_path: Path) -> None:
    collection = import_collection("crux", crux(tmp_path / "x"), tmp_path / "c")

    told = collection.manifest.config["import"]
    assert isinstance(told, dict)
    assert isinstance(told["files"], dict)
    assert list(told["files"]) == ["passages.jsonl", "test_judgements.jsonl", "test_topics.jsonl"]
