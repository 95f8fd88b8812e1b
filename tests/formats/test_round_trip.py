"""What is exported and imported again is what it was, or what is lost is named."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import (
    Chunk,
    Collection,
    Format,
    Nugget,
    Query,
    export_collection,
    import_collection,
)
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.format import Part
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.records import Scale
from freshstack_dspy.stored.contents import Contents, slice_queries
from tests.collection.small import (
    CHUNKS,
    CONTENTS,
    PROVENANCE,
    A,
    B,
    D,
    chunk,
    judgment,
    write_small,
)

DOCS = Path(__file__).parents[2] / "docs/formats.md"
_IDS = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    min_size=2,
    max_size=4,
    unique=True,
)
"""Ids of queries or chunks."""
READ_BACK = [name for name in FORMATS.ours if FORMATS.get(name).read and FORMATS.get(name).write]
each_format = pytest.mark.parametrize("name", READ_BACK)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A collection that has something of every part, on a graded scale; all of it is exported."""
    labels: dict[str, dict[str, int | None]] = {
        "12_0": {A: 3, B: 1},
        "12_1": {A: 0, B: 2},
        "123_0": {A: 2, B: 1, D: None},
    }
    spans = {"12_0": ((0, 3),), "12_1": ((1, 3),)}
    judgments = [
        judgment(nugget, id_, label).model_copy(
            update={"evidence": spans.get(nugget, ()) if (label or 0) > 1 else ()}
        )
        for nugget, of in labels.items()
        for id_, label in of.items()
    ]
    nuggets = [one for one in CONTENTS.nuggets if one.nugget_id in labels]
    nuggets[0] = nuggets[0].model_copy(update={"importance": "vital"})
    queries = CONTENTS.queries[:2]
    contents = replace(
        CONTENTS,
        queries=queries,
        nuggets=tuple(nuggets),
        judgments=tuple(judgments),
        pool=CONTENTS.pool[:3],
        expansions=(),
        contamination=(),
        failures=(),
        slices=tuple(slice_queries(queries, nuggets, judgments, 2)),
    )
    chunks: list[Chunk] = [
        one.model_copy(update={"title": "T", "url": "https://example.org/x"}) for one in CHUNKS
    ]
    chunks.append(chunk("docs/never.md_0_5", "other"))  # which nobody pooled
    made = PROVENANCE.model_copy(update={"scale": Scale(name="graded_3", threshold=2)})
    return write_collection(tmp_path_factory.mktemp("rich") / "c", contents, chunks, made)


def _labels(collection: Collection) -> set[tuple[str, str, int]]:
    return {
        (one.nugget_id, one.chunk_id, one.label)
        for one in collection.judgments
        if one.label is not None
    }


PARTS: dict[Part, Callable[[Collection], Any]] = {
    "queries": lambda of: [
        (one.query_id, one.title, one.body, one.tags, one.asked_at) for one in of.queries
    ],
    "answers": lambda of: [one.answer for one in of.queries],
    "authors": lambda of: [(one.question_source, one.answer_source) for one in of.queries],
    "nuggets": lambda of: [(one.query_id, one.nugget_id, one.text) for one in of.nuggets],
    "importance": lambda of: [one.importance for one in of.nuggets],
    "support": lambda of: {pair[:2] for pair in _labels(of) if pair[2] >= of.threshold},
    "labels": _labels,
    "failures": lambda of: {
        (one.nugget_id, one.chunk_id) for one in of.judgments if one.label is None
    },
    "evidence": lambda of: {
        (one.nugget_id, one.chunk_id, one.evidence) for one in of.judgments if one.evidence
    },
    "chunks": lambda of: [
        (one.chunk_id, one.title, one.text, one.source, one.path, one.start_byte, one.url)
        for one in of.chunks()
    ],
    "pool": lambda of: of.pool,
}


@each_format
def test_what_comes_back_is_what_it_was_or_is_named(
    rich: Collection, tmp_path: Path, name: str
) -> None:
    layout: Format = FORMATS.get(name)
    export_collection(rich, layout, tmp_path / "e")
    assert validate(tmp_path / "e").faults == ()
    back = import_collection(layout, tmp_path / "e", tmp_path / "b")

    lost = [part for part, of in PARTS.items() if of(rich) != of(back)]

    assert tuple(PARTS) == get_args(Part)
    assert lost == [part for part in PARTS if part in layout.cannot_hold]
    assert back.licences == rich.licences


@pytest.mark.parametrize("name", ["trec", "freshstack"])
def test_without_our_own_file_the_layout_itself_is_read(
    rich: Collection, tmp_path: Path, name: str
) -> None:
    export_collection(rich, name, tmp_path / "e")
    (tmp_path / "e/judgments.jsonl").unlink()
    back = import_collection(name, tmp_path / "e", tmp_path / "b")

    assert PARTS["support"](rich) == PARTS["support"](back)
    assert back.manifest.scale.name == "binary"


@pytest.mark.parametrize("name", ["trec", "hf", "freshstack", "crux"])
def test_grades_of_a_query_stay_grades(tmp_path: Path, name: str) -> None:
    """A label of 2 is the grade 2, and not the one nugget that is supported."""
    files = {
        "queries.jsonl": '{"_id": "q", "text": "How?"}\n',
        "corpus.jsonl": '{"_id": "a", "text": "So."}\n{"_id": "b", "text": "No."}\n',
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq\ta\t2\nq\tb\t1\n",
    }
    (tmp_path / "theirs").mkdir()
    for file, text in files.items():
        (tmp_path / "theirs" / file).write_text(text, encoding="utf-8")
    first = import_collection("beir", tmp_path / "theirs", tmp_path / "first")
    export_collection(first, name, tmp_path / "e")
    back = import_collection(name, tmp_path / "e", tmp_path / "back")

    for one, folder in ((first, "f"), (back, "b")):
        export_collection(one, "beir", tmp_path / folder)
    assert back.plain
    assert (tmp_path / "f/qrels/test.tsv").read_text() == (
        tmp_path / "b/qrels/test.tsv"
    ).read_text()


@pytest.mark.parametrize("name", READ_BACK)
def test_the_docs_name_what_each_format_loses(name: str) -> None:
    lost = ", ".join(FORMATS.get(name).cannot_hold) or "nothing"

    assert re.search(rf"^\| `{name}` \|.*\| {lost} \|$", DOCS.read_text("utf-8"), re.MULTILINE)


@given(
    query_ids=_IDS,
    chunk_ids=_IDS,
    format_=st.sampled_from(["freshstack", "beir", "trec", "crux"]),
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
        assert _labels_by_query(collection) == _labels_by_query(back)


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


@pytest.mark.parametrize(
    ("exported", "fault"),
    [
        ("beir", "is an export in the format beir; use format='beir'"),
        ("mteb", "is an export in the format mteb; use format='mteb'"),
        ("hf", "is an export in the format hf; use format='hf'"),
    ],
)
def test_an_export_says_what_to_read_it_as(tmp_path: Path, exported: str, fault: str) -> None:
    export_collection(write_small(tmp_path / "small"), exported, tmp_path / "e")

    for folder, message in (("e", fault), ("small", "is a collection already")):
        with pytest.raises(SourceError, match=message):
            import_collection("freshstack", tmp_path / folder, tmp_path / "c")


def _labels_by_query(collection: Collection) -> set[tuple[str, str, int | None]]:
    return {(one.query_id, one.chunk_id, one.label) for one in collection.judgments}
