"""Retrievers of a user's own: what they may be and return, and what is told of a wrong one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pytest

from freshstack_dspy import Collection, Run, compare, evaluate, retrieve
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.collection.retrieve import hits_of
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.measures.spans import Place
from freshstack_dspy.records import SourceFile
from freshstack_dspy.stored.passages import Files, read_passages, write_passages
from tests.heard import Heard

from .small import CHUNKS, CONTENTS, PROVENANCE

PAGE = "# Größe\n\nIt is called size.\n\nThe size of a list is `len(a)`.\n"
WINDOWS = "First line.\r\nSecond line.\r\n\r\nA last paragraph.\r\n"
OLD = "Größe: size.\nPlain words follow.\n"
CUT = [
    chunk
    for path, data, encoding in (
        ("page.md", PAGE.encode(), "utf-8"),
        ("windows.txt", WINDOWS.encode(), "utf-8"),
        ("old.txt", OLD.encode("cp1252"), "cp1252"),
    )
    for chunk in chunk_file(SourceFile("lib", path, data, encoding=encoding), 16)
]
QUERIES = ("12", "123", "5")
"""Those of the collection that have a nugget."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The small collection, with three files more."""
    path = tmp_path_factory.mktemp("c") / "small"
    return write_collection(path, CONTENTS, [*CHUNKS, *CUT], PROVENANCE)


def found(collection: Collection, results: Any) -> Run | PassageRun:
    return retrieve(collection, lambda _: results)


def bytes_of(text: str, part: str, encoding: str = "utf-8") -> tuple[int, int]:
    """Where a part is in a text, in bytes."""
    before, _, _ = text.partition(part)
    start = len(before.encode(encoding))
    return start, start + len(part.encode(encoding))


LENGTH = bytes_of(PAGE, "`len(a)`")
SECOND = tuple(place + len(PAGE[: PAGE.rindex("size")].encode()) for place in (0, 4))
ONE, TWO = (chunk.chunk_id for chunk in CUT[:2])


@pytest.mark.parametrize(
    "results",
    [
        [[TWO, 1], [ONE, np.float32(2)]],
        ({"chunk_id": chunk} for chunk in (ONE, TWO)),
        [{"id": ONE, "score": 0.5}, {"id": TWO, "score": 0.25}, {"id": ONE, "score": 0.1}],
        pd.DataFrame({"docno": [ONE, TWO], "score": [2.0, 1.0], "rank": [0, 1]}),
        [{"path": "page.md", "text": "no matter", "chunk_id": ONE}, TWO],
    ],
    ids=["unsorted", "generator", "twice", "frame", "with path"],
)
@pytest.mark.filterwarnings("ignore:the results of")
def test_results_that_are_chunks_are_a_run_of_chunks(collection: Collection, results: Any) -> None:
    results = list(results) if not isinstance(results, pd.DataFrame) else results
    run = found(collection, results)

    assert isinstance(run, Run)
    assert list(run.rankings) == list(QUERIES)
    assert [chunk for chunk, _ in run.rankings["12"]] == [ONE, TWO]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"path": "page.md", "start": 2, "end": 7}, ("page.md", 2, 9)),
        ({"path": "page.md", "start": 2, "end": 9, "unit": "bytes"}, ("page.md", 2, 9)),
        ({"path": "/srv/docs/lib/page.md", "text": "`len(a)`", "start": 3}, ("page.md", *LENGTH)),
        ({"file_path": "lib/page.md", "text": "`len(a)`", "start": np.nan}, ("page.md", *LENGTH)),
        ({"path": "page.md", "text": "size", "start": PAGE.rindex("size")}, ("page.md", *SECOND)),
        ({"path": "windows.txt", "text": "line.\nSecond line.\n\nA last", "start": 6},
         ("windows.txt", *bytes_of(WINDOWS, "line.\r\nSecond line.\r\n\r\nA last"))),
        ({"path": "old.txt", "text": "Plain words follow.", "start": 11},
         ("old.txt", *bytes_of(OLD, "Plain words follow.", "cp1252"))),
    ],
    ids=["characters", "bytes", "wrong offset", "no offset", "verified", "line ends", "ignored"],
)  # fmt: skip
def test_passages_are_placed_in_their_file(
    collection: Collection, result: Any, expected: tuple[str, int, int]
) -> None:
    run = found(collection, [result])

    assert isinstance(run, PassageRun)
    assert run.placed_share == 1
    assert run.passages == {query: {Place("lib", *expected): -1.0} for query in QUERIES}


class Document(NamedTuple):
    """As LangChain's."""

    page_content: str
    metadata: dict[str, Any]
    id: str | None = None


def test_what_has_no_place_is_counted_and_named(collection: Collection, tmp_path: Path) -> None:
    """`OLD` was read as UTF-8 with errors="ignore" here, so that letters are missing."""
    ignored = OLD.encode("cp1252").decode("utf-8", errors="ignore")
    results = [
        Document("It is called size.", {"source": "docs/page.md", "start_index": 9}),
        Document("Gre: size.", {"source": "old.txt"}),
        Document(ignored, {"source": "odl.txt", "chunk_id": 7}),
        Document("It is called size.", {}, "4f2a"),
    ]
    with pytest.warns(UserWarning, match="3 of 12 results of <lambda> cannot be placed") as warned:
        run = found(collection, [*results[:1], *results[:1], *results[2:]])
    assert "no file 'odl.txt'" in str(warned[0].message)

    assert isinstance(run, PassageRun)
    assert run.placed_share == 0.75  # the last by its text alone
    assert {query: len(of) for query, of in run.unplaced.items()} == dict.fromkeys(QUERIES, 1)
    write_passages(run, tmp_path / "mine.jsonl")
    files = Files(collection.chunks())
    again = files.place_all(read_passages(tmp_path / "mine.jsonl", files), run.name)
    assert (again.passages, again.unplaced) == (run.passages, run.unplaced)
    with pytest.raises(CollectionError, match=r"3 of 3 results of .* its text is not in 'old.txt'"):
        found(collection, results[1:2])
    with pytest.raises(CollectionError, match=r"3 of 3 results of .*: its text is in no file"):
        found(collection, [Document("It is called colour.", {})])


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (None, "returned None"),
        ("page.md", "returned a str"),
        ([(ONE, "high")], "returned a list of tuple"),
        ([{"words": "It is", "score": 1}], "without path"),
        ([{"path": "page.md", "text": "It", "unit": "tokens"}], "unit 'tokens'"),
        ([{"path": "page.md"}], "neither text nor start and end"),
        ([], "returned nothing for any of 3 queries"),
    ],
)
def test_what_no_retriever_returns_is_one_clear_line(
    collection: Collection, results: Any, message: str
) -> None:
    with pytest.raises(CollectionError, match=message) as raised:
        found(collection, results)

    assert "\n" not in str(raised.value)


def test_a_retriever_that_raises_is_named_with_the_query_and_what_was_done(
    collection: Collection,
) -> None:
    asked: list[str] = []

    def search(text: str) -> list[str]:
        asked.append(text)
        if len(asked) == 3:
            raise TimeoutError("no answer after 30 s")
        return [ONE]

    with pytest.raises(CollectionError) as raised:
        retrieve(collection, search)
    assert str(raised.value) == (
        "search raised TimeoutError: no answer after 30 s, at query '5', after 2 of 3"
    )
    assert isinstance(raised.value.__cause__, TimeoutError)
    assert asked[0] == collection.queries[0].text


class Store:
    """As LangChain's and LlamaIndex' stores, which do not retrieve by themselves."""

    def as_retriever(self) -> Callable[[str], list[str]]:
        return lambda _: [ONE]


@pytest.mark.parametrize(
    ("given", "message"),
    [(5, "int is no retriever"), (Store(), "did you mean its .as_retriever"), (Store, "a class")],
)
def test_what_is_no_retriever_is_an_error(collection: Collection, given: Any, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        retrieve(collection, given)
    assert isinstance(retrieve(collection, Store().as_retriever()), Run)


def test_as_many_results_are_asked_for_as_are_wanted_and_the_best_are_taken(
    collection: Collection,
) -> None:
    asked: list[int] = []

    def search(text: str, top_k: int = 1) -> list[tuple[str, float]]:
        asked.append(top_k)
        return [(TWO, 1.0), (ONE, 2.0), (CUT[2].chunk_id, 1.5)]

    heard = Heard()
    run = retrieve(collection, search, depth=2, progress=heard, slices=["answerable"])

    assert isinstance(run, Run)
    assert [chunk for chunk, _ in run.rankings["12"]] == [ONE, CUT[2].chunk_id]
    assert asked == [2, 2]
    assert heard.advanced == {"search": 2}


def test_a_retriever_is_evaluated_as_its_run_is(collection: Collection) -> None:
    def search(text: str) -> list[str]:
        return [CHUNKS[1].chunk_id, ONE]

    run = retrieve(collection, search)

    assert evaluate(collection, search) == evaluate(collection, run) == collection.evaluate(search)
    folder = cast("Path", collection.corpus.place).parent
    assert evaluate(str(folder), run) == collection.evaluate(run)
    assert compare(folder, [run, run]) == compare(collection, [run, run])
    runs = {"mine": search, "other": {"12": {ONE: 1.0}}}
    assert compare(collection, runs) == compare(collection, runs | {"mine": run})
    with pytest.raises(CollectionError, match="give the collection in place of its qrels"):
        evaluate(collection.qrels(), search)


def test_distances_are_warned_of(collection: Collection) -> None:
    with pytest.warns(UserWarning, match="where scores are distances, return them negated"):
        found(collection, [(ONE, 0.1), (TWO, 0.4)])


def test_where_one_result_has_no_score_their_order_counts() -> None:
    hits = hits_of([{"id": ONE, "score": 0.1}, {"id": TWO, "score": None}, (ONE, 9.0)])

    assert [hit.score for hit in hits] == [-1, -2, -3]
