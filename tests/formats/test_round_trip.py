"""What is exported and imported again is what it was."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.exports import export_collection
from freshstack_dspy.formats.imports import import_collection
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.records import Nugget, Query
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, chunk, judgment, write_small

_IDS = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    min_size=2,
    max_size=4,
    unique=True,
)


@pytest.mark.parametrize(
    "format_", ["freshstack", "beir", "mteb", "crux", "nuggetizer", "autojudge"]
)
def test_a_small_collection_comes_back(tmp_path: Path, format_: str) -> None:
    collection = write_small(tmp_path / "small")
    export_collection(collection, format_, tmp_path / "e")

    back = import_collection(format_, tmp_path / "e", tmp_path / "b")

    assert back.query_ids() == ("12", "123")
    assert [one.text for one in collection.chunks()] == [one.text for one in back.chunks()]
    assert collection.licences == back.licences
    if format_ not in ("beir", "mteb"):
        assert collection.qrels().nuggets == back.qrels().nuggets
        assert collection.qrels().official() == back.qrels().official()


@given(
    query_ids=_IDS,
    chunk_ids=_IDS,
    format_=st.sampled_from(["freshstack", "beir", "crux", "autojudge"]),
)
def test_arbitrary_ids_come_back(query_ids: list[str], chunk_ids: list[str], format_: str) -> None:
    with TemporaryDirectory() as folder:
        collection = _collection(Path(folder) / "c", query_ids, chunk_ids)
        export_collection(collection, format_, Path(folder) / "e")
        report = validate(Path(folder) / "e")
        back = import_collection(format_, Path(folder) / "e", Path(folder) / "b")

        assert report.faults == ()
        assert sorted(query_ids) == [query.query_id for query in back.queries]
        assert [one.text for one in collection.queries] == [one.text for one in back.queries]
        assert {one.chunk_id: one.text for one in collection.chunks()} == {
            one.chunk_id: one.text for one in back.chunks()
        }
        assert _labels(collection) == _labels(back)


def _collection(path: Path, query_ids: list[str], chunk_ids: list[str]) -> Collection:
    queries = [
        Query(query_id=id_, title="How?", body="It fails.", answer="So.", origin="imported")
        for id_ in query_ids
    ]
    nuggets = [
        Nugget(nugget_id=f"{id_}_0", query_id=id_, text="a fact", call_id=None) for id_ in query_ids
    ]
    judgments = [
        judgment(nugget.nugget_id, chunk_id, int(number == 0))
        for nugget in nuggets
        for number, chunk_id in enumerate(chunk_ids)
    ]
    contents = Contents(
        queries=tuple(queries),
        nuggets=tuple(nuggets),
        judgments=tuple(judgments),
        slices=tuple(slice_queries(queries, nuggets, judgments)),
    )
    chunks = [chunk(id_, f"text {number}") for number, id_ in enumerate(chunk_ids)]
    return write_collection(path, contents, chunks, PROVENANCE)


def _labels(collection: Collection) -> set[tuple[str, str, int | None]]:
    return {(one.query_id, one.chunk_id, one.label) for one in collection.judgments}


@pytest.mark.parametrize(
    ("exported", "fault"),
    [
        ("beir", "is an export in the format beir; use format='beir'"),
        ("mteb", "is an export in the format mteb; use format='mteb'"),
        ("hf", "is an export in the format hf; export as freshstack"),
    ],
)
def test_an_export_says_what_to_read_it_as(tmp_path: Path, exported: str, fault: str) -> None:
    export_collection(write_small(tmp_path / "small"), exported, tmp_path / "e")

    for folder, message in (("e", fault), ("small", "is a collection already")):
        with pytest.raises(SourceError, match=message):
            import_collection("freshstack", tmp_path / folder, tmp_path / "c")


def test_the_card_names_what_was_exported_however_often(tmp_path: Path) -> None:
    made = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    first = write_collection(tmp_path / "c", CONTENTS, CHUNKS, made)
    export_collection(first, "beir", tmp_path / "e")
    second = import_collection("beir", tmp_path / "e", tmp_path / "again")
    export_collection(second, "beir", tmp_path / "f")
    import_collection("beir", tmp_path / "f", tmp_path / "third")

    for name, of in (("again", first), ("third", second)):
        card = (tmp_path / name / "README.md").read_text(encoding="utf-8")
        assert card.startswith(f"# {name}\n\n**extractive/baseline is a baseline")
        assert of.manifest.content_hash in card
    exported = (tmp_path / "f/README.md").read_text(encoding="utf-8")
    assert "**extractive/baseline is a baseline" in exported
