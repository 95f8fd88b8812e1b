"""Runs of a collection's queries, by every retriever that an index of its corpus has."""

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, HybridIndex, retrieve
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.models import Models
from freshstack_dspy.records import ScoredChunk
from freshstack_dspy.stored.contents import nuggets_by_query
from tests.heard import Heard
from tests.index.pieces import Letters

from .small import CONTENTS, PROVENANCE, chunk, query, write_small

LETTERS = Models([Letters()])


class WordCounter:
    """A reranker that counts the first word of a question."""

    identity = "word counter 1"
    at_once = 1

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        return [float(passage.split().count(text.split(maxsplit=1)[0])) for passage in passages]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the index of the collection is kept."""
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, two of whose queries ask for words of the corpus."""
    queries = (query("12", "alpha"), query("123", "def"), *CONTENTS.queries[2:])
    chunks = (
        chunk("docs/a.md_0_5", "alpha beta def"),
        chunk("docs/b c.md_0_6", "beta alpha alpha"),
        chunk("code/d.py_3_9", "def gamma: alpha", start=3),
    )
    contents = dataclasses.replace(CONTENTS, queries=queries)
    made = PROVENANCE.model_copy(update={"config": {"index": {"path": "index", "dimensions": 2}}})
    path = tmp_path_factory.mktemp("c") / "small"
    write_collection(path, contents, chunks, made)
    return path


@pytest.fixture(scope="module")
def collection(folder: Path) -> Collection:
    return Collection.load(folder)


@pytest.mark.parametrize("retriever", ["bm25", "lsa", "hybrid"])
def test_a_run_is_for_every_query_that_has_a_nugget(
    collection: Collection, folder: Path, root: Path, retriever: str
) -> None:
    """Also for those without support: `extend` may find some."""
    run = retrieve(collection, retriever, depth=2, index_path=root)

    assert run.name == retriever
    with_nuggets = {nugget.query_id for nugget in collection.nuggets}
    assert list(run.rankings) == sorted(with_nuggets)
    assert "5" not in collection.query_ids()
    assert "5" in run.rankings
    assert all(len(ranking) <= 2 for ranking in run.rankings.values())
    for path in (folder, str(folder)):
        assert retrieve(path, retriever, depth=2, index_path=root) == run


def test_hybrid_fuses_as_it_is_told_and_its_run_is_called_so(
    collection: Collection, root: Path
) -> None:
    parts = {
        name: retrieve(collection, name, index_path=root, models=LETTERS).rankings["12"]
        for name in ("bm25", "lsa", "letters")
    }

    for fusion, name in (
        (FusionConfig(), "hybrid"),
        (FusionConfig(method="rrf"), "hybrid-rrf"),
        (FusionConfig(method="weighted", weights={"bm25": 0.25, "lsa": 0}), "hybrid-weighted"),
    ):
        run = retrieve(collection, "hybrid", index_path=root, models=LETTERS, fusion=fusion)
        assert list(run.rankings["12"]) == fuse(parts, 100, fusion)
        assert run.name == name


def test_a_reranker_has_the_last_word(collection: Collection, root: Path) -> None:
    models = Models((), WordCounter())

    run = retrieve(collection, "hybrid+rerank", index_path=root, models=models)

    assert run.rankings["12"][0] == ScoredChunk("docs/b c.md_0_6", 2.0)


def test_an_index_of_the_same_corpus_is_not_built_again(collection: Collection, root: Path) -> None:
    first = retrieve(collection, "hybrid", index_path=root)
    heard = Heard()

    again = retrieve(collection, "hybrid", index_path=root, progress=heard)

    assert (again, list(heard.notes)) == (first, ["search"])


def test_a_second_retrieval_by_words_needs_no_table_of_vectors(
    collection: Collection, folder: Path, root: Path
) -> None:
    first = retrieve(collection, "bm25", index_path=root)
    code = (
        "import sys; from freshstack_dspy.collection.retrieve import retrieve; "
        f"run = retrieve({str(folder)!r}, 'bm25', index_path={str(root)!r}); "
        f"sys.exit(run.rankings != {first.rankings!r} or 'lancedb' in sys.modules)"
    )
    names = "from freshstack_dspy.records import ScoredChunk; "

    assert subprocess.run([sys.executable, "-c", names + code], check=False).returncode == 0


@pytest.mark.parametrize("whole", [True, False])
def test_the_index_of_a_build_is_opened_where_it_holds_the_same_chunks_and_never_changed(
    tmp_path: Path, whole: bool
) -> None:
    collection = write_small(tmp_path / "c")
    chunks = list(collection.chunks())
    HybridIndex.build(tmp_path / "i", collection.name, chunks if whole else chunks[:1])

    retrieve(collection, "lsa", index_path=tmp_path / "i")

    own = f"{collection.name}-{collection.manifest.content_hash[:12]}"
    indexes = {path.name for path in (tmp_path / "i").iterdir()}
    assert indexes == {collection.name, *([] if whole else [own])}
    assert len(HybridIndex.open(tmp_path / "i" / collection.name)) == (3 if whole else 1)


def test_bm25_alone_fits_no_lsa_and_ranks_as_the_whole_index(
    collection: Collection, tmp_path: Path
) -> None:
    heard = Heard()

    alone = retrieve(
        collection,
        "bm25",
        index_path=tmp_path,
        models=LETTERS,
        progress=heard,
    )

    assert list(heard.notes) == ["terms", "bm25", "search"]
    retrieve(collection, "hybrid", index_path=tmp_path)
    assert retrieve(collection, "bm25", index_path=tmp_path) == alone
    assert len(list(tmp_path.iterdir())) == 1


def test_k1_and_b_are_those_of_the_build_or_others(collection: Collection, root: Path) -> None:
    first = retrieve(collection, "bm25", index_path=root)

    flat = retrieve(collection, "bm25", index_path=root, k1=0.0, b=0.0)

    assert retrieve(collection, "bm25", index_path=root, k1=1.2, b=0.75) == first
    assert first.scores != flat.scores
    with pytest.raises(IndexingError, match="b from 0 to 1"):
        retrieve(collection, "bm25", index_path=root, b=1.5)


def test_queries_without_the_text_that_is_searched_with_are_left_out(
    collection: Collection, root: Path
) -> None:
    def searches(text: str) -> list[tuple[str, float]]:
        texts.append(text)
        return [("docs/a.md_0_5", 1.0)]

    texts: list[str] = []
    with pytest.warns(
        UserWarning, match=r"2 of 3 queries are not in the run, such as '123': .* sub-q"
    ):
        run = retrieve(collection, "hybrid", with_="sub_questions", index_path=root)
    own = retrieve(collection, searches, with_="nuggets", progress=False)

    assert (run.name, list(run)) == ("hybrid@sub_questions", ["12"])
    assert own.name == "searches@nuggets"
    by_query = nuggets_by_query(collection.nuggets)
    assert texts == ["\n".join(each.text for each in by_query[query]) for query in sorted(by_query)]
    with pytest.raises(
        CollectionError, match=r"a closed-book answer .*; name closed_book_answer in"
    ):
        retrieve(collection, "hybrid", with_="closed_book_answer", index_path=root)
    nuggets = tuple(
        each.model_copy(update={"text": asked.text})
        for each in collection.nuggets
        for asked in collection.queries
        if each.query_id == asked.query_id and each.nugget_id.endswith("_0")
    )
    without = dataclasses.replace(collection, nuggets=nuggets)
    with pytest.raises(CollectionError, match=r"no query has nuggets of an answer"):
        retrieve(without, "hybrid", with_="nuggets", index_path=root)
    unknown: Any = "hyde"
    with pytest.raises(CollectionError, match="allowed: question, sub_questions, closed_book"):
        retrieve(collection, "hybrid", with_=unknown)


def test_an_unknown_retriever_is_an_error_before_anything_is_built(
    collection: Collection, tmp_path: Path
) -> None:
    for retriever in ("bm52", "hybrid+rerank"):
        with pytest.raises(IndexingError, match="there are: bm25, lsa, letters, hybrid, and"):
            retrieve(collection, retriever, index_path=tmp_path / "index", models=LETTERS)

    assert not (tmp_path / "index").exists()
