"""A collection, judgments and chunks of what is in memory."""

from pathlib import Path
from typing import Any

import pytest

import freshstack_dspy as fs
from freshstack_dspy import FreshstackError, NuggetQrels
from freshstack_dspy.errors import CollectionError, ConfigError, SourceError

QUERIES = [{"query_id": 1, "title": "How do I undo?"}, {"query_id": 2, "title": "How do I push?"}]
NUGGETS = [
    {"nugget_id": "1_0", "query_id": 1, "text": "reset undoes"},
    {"nugget_id": "1_1", "query_id": 1, "text": "revert undoes", "importance": "okay"},
    {"nugget_id": "2_0", "query_id": 2, "text": "push pushes"},
]
JUDGMENTS = [
    {"query_id": 1, "nugget_id": "1_0", "chunk_id": "a", "label": 2},
    {"query_id": 1, "nugget_id": "1_1", "chunk_id": "a", "label": 0},
    {"query_id": 1, "nugget_id": "1_1", "chunk_id": "b", "label": 1},
    {"query_id": 2, "nugget_id": "2_0", "chunk_id": "b", "label": None},
]
CHUNKS = [{"id": "a", "text": "git reset undoes", "title": "Reset"}, {"id": "b", "text": "revert"}]
RUN = {"1": {"a": 2.0, "b": 1.0}}


def of(**given: Any) -> fs.Collection:
    parts = {"queries": QUERIES, "nuggets": NUGGETS, "judgments": JUDGMENTS, "chunks": CHUNKS}
    return fs.Collection.of(**{**parts, **given})


def test_a_collection_of_rows_is_measured_searched_and_saved(tmp_path: Path) -> None:
    collection = of(name="git")

    assert collection.evaluate(RUN, "Coverage@1", slices="all").values("Coverage@1") == {
        "1": 0.5,
        "2": 0.0,
    }
    assert {one.query_id: one.slice for one in collection.slices} == {
        "1": "answerable",
        "2": "undetermined",
    }
    assert collection.retrieve("bm25", index_path=tmp_path / "i").rankings["1"][0].chunk_id == "a"
    saved = collection.save(tmp_path / "git")
    assert fs.Collection.load(tmp_path / "git") == saved == collection
    with pytest.raises(CollectionError, match="exists"):
        collection.save(tmp_path / "git")


def test_records_give_the_collection_that_they_are_from(tmp_path: Path) -> None:
    first = of()
    again = of(
        queries=first.queries,
        nuggets=first.nuggets,
        judgments=first.judgments,
        chunks=first.chunks(),
    )

    assert again == first


def test_data_frames_give_the_same() -> None:
    pd = pytest.importorskip("pandas")
    parts = {"queries": QUERIES, "nuggets": NUGGETS, "judgments": JUDGMENTS, "chunks": CHUNKS}

    assert of(**{name: pd.DataFrame(rows) for name, rows in parts.items()}) == of()


def test_without_chunks_they_are_those_judged() -> None:
    collection = of(chunks=None)

    assert [chunk.chunk_id for chunk in collection.chunks()] == ["a", "b"]
    assert collection.evaluate({"1": {"other": 3.0, "a": 1.0}}, "P@2").means == {"P@2": 0.5}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"judgments": [{"nugget_id": "9", "chunk_id": "a", "label": 1}]}, r"judgments\[0\].*'9'"),
        ({"judgments": [JUDGMENTS[0] | {"label": 3}]}, "above 2"),
        ({"judgments": [JUDGMENTS[0] | {"chunk_id": "z"}]}, "chunk 'z', which does not exist"),
        ({"nuggets": [{"nugget_id": "1", "query_id": 1}]}, r"nuggets\[0\].*text"),
        ({"nuggets": "nuggets.jsonl"}, "nuggets is str"),
        ({"chunks": [{"id": "a"}]}, r"chunks\[0\].*'text'"),
    ],
)
def test_a_row_at_fault_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(FreshstackError, match=named):
        of(**given)


def test_judgments_alone_are_measured() -> None:
    collection = of()

    assert NuggetQrels.of(JUDGMENTS) == NuggetQrels.of(collection.judgments)
    assert NuggetQrels.of(JUDGMENTS).failed["2_0"] == {"b"}
    plain = NuggetQrels.of([{"query_id": "1", "chunk_id": "a", "label": 1}])
    assert plain == NuggetQrels.from_qrels({"1": {"a": 1}})
    with pytest.raises(CollectionError, match=r"judgments\[4\].*already"):
        NuggetQrels.of([*JUDGMENTS, JUDGMENTS[0]])


def test_a_folder_becomes_chunks(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A\n\nText.\n")
    (tmp_path / "docs/b.txt").write_text("Other.\n")

    cut = fs.chunks(str(tmp_path / "docs"), include=["*.md"])

    assert [(one.chunk_id, one.text) for one in cut] == [("docs/a.md_0_11", "# A\n\nText.\n")]
    assert fs.chunks([{"id": "x", "text": "y"}])[0].chunk_id == "documents/x_0_1"
    assert of(chunks=[*CHUNKS, *cut]).chunk("docs/a.md_0_11") == cut[0]
    with pytest.raises(SourceError, match="no document with text"):
        fs.chunks(tmp_path / "docs", include=["*.py"])
    with pytest.raises(ConfigError, match="includes"):
        fs.chunks(tmp_path / "docs", includes=["*.md"])
