"""FreshStack, CRUX and nuggetizer; and what holds for every import."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshstack_dspy import export_collection, import_collection
from freshstack_dspy.errors import CollectionError, SourceError
from tests.collection.small import files_of, write_small

from .foreign import beir, crux, freshstack, freshstack_row, nuggetizer


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


def test_parquet_is_read_as_json_lines_are(tmp_path: Path) -> None:
    import_collection("freshstack", freshstack(tmp_path / "f"), tmp_path / "one")
    for name in ("queries", "corpus"):
        lines = (tmp_path / f"f/{name}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        (tmp_path / f"f/{name}.jsonl").unlink()
        (tmp_path / f"f/{name}").mkdir()
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"f/{name}/0.parquet")
    import_collection("freshstack", tmp_path / "f", tmp_path / "two")

    for name in ("queries.jsonl", "judgments.jsonl", "corpus.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_synthetic_query_stays_marked(tmp_path: Path) -> None:
    row = freshstack_row(metadata={"origin": "synthetic", "tags": []})
    collection = import_collection("freshstack", freshstack(tmp_path / "f", [row]), tmp_path / "c")

    assert collection.queries[0].origin == "synthetic"


def test_chunks_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    row = freshstack_row()
    row["nuggets"][0]["non_relevant_corpus_ids"].append("docs/a b.md_0_5")
    with pytest.raises(SourceError, match=r"nugget '7_0' names chunk 'docs/a b.md_0_5' twice"):
        import_collection("freshstack", freshstack(tmp_path / "f", [row]), tmp_path / "c")


def test_ratings_become_labels_from_0_to_5_with_threshold_3(tmp_path: Path) -> None:
    collection = import_collection("crux", crux(tmp_path / "x"), tmp_path / "c")

    assert (collection.manifest.scale.name, collection.manifest.scale.threshold) == ("graded_5", 3)
    assert [(judgment.nugget_id, judgment.label) for judgment in collection.judgments] == [
        ("t-0_1", 5),
        ("t-0_2", 3),
        ("t-0_3", 0),
    ]
    assert collection.queries[0].answer == "It was."
    assert list(collection.manifest.config["import"]["files"]) == [  # type: ignore[index, call-overload, arg-type]
        "passages.jsonl", "test_judgements.jsonl", "test_topics.jsonl",
    ]  # fmt: skip


@pytest.mark.parametrize(("rating", "status"), [(-1, "unparsed"), (-2, "failed"), ("-2", "failed")])
def test_a_failed_rating_is_no_label(tmp_path: Path, rating: Any, status: str) -> None:
    path = crux(tmp_path / "x", rating=(5, rating, 0))
    failed = import_collection("crux", path, tmp_path / "c").judgments[1]

    assert (None, status) == (failed.label, failed.status)


@pytest.mark.parametrize("rating", [(5, 6, 0), (5, True, 0), (5, 3)])
def test_what_is_no_rating_is_refused(tmp_path: Path, rating: Any) -> None:
    with pytest.raises(SourceError, match=r"judgements\.jsonl:1: .*rating"):
        import_collection("crux", crux(tmp_path / "x", rating=rating), tmp_path / "c")


def test_a_question_that_is_missing_is_a_failure_and_no_nugget(tmp_path: Path) -> None:
    path = crux(tmp_path / "x", questions=("Who?", None, "NA"))
    collection = import_collection("crux", path, tmp_path / "c")

    assert [nugget.nugget_id for nugget in collection.nuggets] == ["t-0_1"]
    assert [failure.step for failure in collection.failures] == ["nuggets", "nuggets"]


@pytest.mark.parametrize(
    ("assignment", "label"),
    [("support", 2), ("partial_support", 1), ("not_support", 0), ("failed", None)],
)
def test_assignments_become_labels_of_support(
    tmp_path: Path, assignment: str, label: int | None
) -> None:
    path = nuggetizer(tmp_path / "n", assignment=assignment, importance="failed")
    collection = import_collection("nuggetizer", path, tmp_path / "c")

    (judgment,) = collection.judgments
    assert ("q_0", "d", label) == (judgment.nugget_id, judgment.chunk_id, judgment.label)
    assert collection.nuggets[0].importance is None
    assert collection.manifest.counts.failures == {"nuggets": {"failed": 1}}
    assert collection.chunk("d").text == "alpha"


def test_a_collection_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    before = files_of(tmp_path / "c")
    path = beir(tmp_path / "b")

    with pytest.raises(CollectionError, match="c exists"):
        import_collection("beir", path, tmp_path / "c")
    assert files_of(tmp_path / "c") == before
    assert import_collection("beir", path, tmp_path / "c", replace=True).queries
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(CollectionError):
        import_collection("beir", path, tmp_path / "mine", replace=True)
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"


def test_the_description_of_a_hostile_export_stays_text(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "small"), "beir", tmp_path / "e")
    file = tmp_path / "e/export.json"
    description = json.loads(file.read_bytes())
    file.write_text(json.dumps({**description, "model": "x\n# y|<b>`"}))
    import_collection("beir", tmp_path / "e", tmp_path / "c")
    card = (tmp_path / "c/README.md").read_text(encoding="utf-8")

    assert "\n# y" not in card
    assert "<b>" not in card
    file.write_text(json.dumps({**description, "model": ["extractive/"]}))
    with pytest.raises(SourceError, match=r"export\.json: model: "):
        import_collection("beir", tmp_path / "e", tmp_path / "d")
