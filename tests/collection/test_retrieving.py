"""Runs of a collection's questions, by every retriever an index of its corpus has."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.retrieve import retrieve
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.records import ScoredChunk

from .small import CONTENTS, PROVENANCE, chunk, query, write_small


class LengthEmbedder:
    """Texts of about the same length are near."""

    name = "length"
    identity = "length 1"

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        progress(1)
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[len(text), 10] for text in texts], np.float32)


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
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Its two evaluated questions ask for words of the corpus."""
    queries = (query("12", "alpha"), query("123", "def"), *CONTENTS.queries[2:])
    chunks = (
        chunk("docs/a.md_0_5", "alpha beta def"),
        chunk("docs/b c.md_0_6", "beta alpha alpha"),
        chunk("code/d.py_3_9", "def gamma: alpha", start=3),
    )
    contents = dataclasses.replace(CONTENTS, queries=queries)
    told = PROVENANCE.model_copy(update={"config": {"index": {"path": "index", "dimensions": 2}}})
    return write_collection(tmp_path_factory.mktemp("c") / "small", contents, chunks, told)


@pytest.mark.parametrize("retriever", ["bm25", "lsa", "hybrid"])
def test_a_run_holds_the_evaluated_questions_by_one_retriever(
    collection: Collection, root: Path, retriever: str
) -> None:
    run = retrieve(collection, retriever, depth=2, index_path=root)

    assert run.name == retriever
    assert list(run.rankings) == ["12", "123"]
    assert all(0 < len(ranking) <= 2 for ranking in run.rankings.values())


def test_other_slices_may_be_asked_for(collection: Collection, root: Path) -> None:
    run = retrieve(collection, "bm25", index_path=root, slices=["unanswerable"])

    assert list(run.rankings) == ["5"]


def test_hybrid_fuses_as_it_is_told(collection: Collection, root: Path) -> None:
    """Also with the embedders, whose rankings are fused by their names."""
    embedders = [LengthEmbedder()]
    weights = {"length": 1.0, "bm25": 0.25, "lsa": 0.0}
    parts = {
        name: retrieve(collection, name, index_path=root, embedders=embedders).rankings["12"]
        for name in ("bm25", "lsa", "length")
    }

    for fusion in (
        FusionConfig(),
        FusionConfig(method="rrf"),
        FusionConfig(method="weighted", weights=weights),
    ):
        run = retrieve(collection, "hybrid", index_path=root, embedders=embedders, fusion=fusion)
        assert list(run.rankings["12"]) == fuse(parts, 100, fusion)


def test_a_reranker_has_the_last_word(collection: Collection, root: Path) -> None:
    run = retrieve(collection, "hybrid+rerank", index_path=root, reranker=WordCounter())

    assert run.rankings["12"][0] == ScoredChunk("docs/b c.md_0_6", 2.0)


def test_an_index_of_the_same_corpus_is_not_built_again(collection: Collection, root: Path) -> None:
    first = retrieve(collection, "hybrid", index_path=root)
    files = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}

    assert retrieve(collection, "hybrid", index_path=root) == first
    assert files == {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def test_an_index_has_the_settings_the_collection_was_built_with(
    collection: Collection, root: Path
) -> None:
    """Else the index of the build would be made anew, and the build's next time again."""
    retrieve(collection, "lsa", index_path=root)

    lsa = HybridIndex.open(root).stats().vectors[0]
    assert (lsa.name, lsa.dimensions) == ("lsa", 2)


@pytest.mark.parametrize(
    "config",
    [
        {"dimensions": 0},
        {"dimensions": "2"},
        {"dimensions": 1.5},
        {"dimensions": True},
        {"search": "guess"},
        {"search": ["auto"]},
        "5",
        [],
    ],
)
def test_settings_that_no_build_writes_are_refused(
    collection: Collection, root: Path, config: Any
) -> None:
    manifest = collection.manifest.model_copy(update={"config": {"index": config}})
    foreign = dataclasses.replace(collection, manifest=manifest)

    with pytest.raises(CollectionError, match=r"no valid config\.index"):
        retrieve(foreign, "bm25", index_path=root)


@pytest.mark.parametrize(
    ("retriever", "said"),
    [
        ("bm52", "unknown retriever 'bm52'; there are: bm25, lsa, length, hybrid, and"),
        ("BM25", "unknown retriever 'BM25'"),
        ("", "unknown retriever ''"),
        ("hybrid+rerank", r"needs a reranker: \[reranker\] in the configuration"),
    ],
)
def test_an_unknown_retriever_is_refused_before_anything_is_built(
    collection: Collection, tmp_path: Path, retriever: str, said: str
) -> None:
    with pytest.raises(IndexingError, match=said):
        retrieve(collection, retriever, index_path=tmp_path / "index", embedders=[LengthEmbedder()])

    assert not (tmp_path / "index").exists()


def test_slices_without_questions_are_refused(collection: Collection, root: Path) -> None:
    with pytest.raises(CollectionError, match="no query is in the slices partly_supported"):
        retrieve(collection, "bm25", index_path=root, slices=["partly_supported"])


def test_the_index_of_a_build_that_has_moved_on_is_not_touched(tmp_path: Path) -> None:
    """Retrieving is for the chunks of the collection, and makes an index of its own for them."""
    collection = write_small(tmp_path / "c")
    HybridIndex.build(tmp_path / "i", collection.name, list(collection.chunks())[:1])

    run = retrieve(collection, "bm25", index_path=tmp_path / "i")
    retrieve(collection, "lsa", index_path=tmp_path / "i")

    assert len(HybridIndex.open(tmp_path / "i", name=collection.name)) == 1
    own = f"{collection.name}-{collection.manifest.content_hash[:12]}"
    assert len(HybridIndex.open(tmp_path / "i", name=own)) == len(list(collection.chunks()))
    assert run.name == "bm25"


def test_the_index_of_the_same_chunks_is_opened(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c")
    HybridIndex.build(tmp_path / "i", collection.name, list(collection.chunks()))

    retrieve(collection, "lsa", index_path=tmp_path / "i")

    assert {path.name for path in (tmp_path / "i").iterdir() if path.is_dir()} == {collection.name}


@pytest.mark.parametrize(
    ("retriever", "name"), [("hybrid", "hybrid-rrf"), ("bm25", "bm25"), ("lsa", "lsa")]
)
def test_a_run_is_called_after_how_it_was_fused(tmp_path: Path, retriever: str, name: str) -> None:
    collection = write_small(tmp_path / "c")

    run = retrieve(
        collection, retriever, index_path=tmp_path / "i", fusion=FusionConfig(method="rrf")
    )

    assert run.name == name


def test_bm25_alone_fits_no_lsa_and_ranks_as_the_whole_index(
    collection: Collection, tmp_path: Path
) -> None:
    stages: list[str] = []
    embedders = [LengthEmbedder()]

    alone = retrieve(
        collection,
        "bm25",
        index_path=tmp_path,
        embedders=embedders,
        progress=lambda stage, _: stages.append(stage),
    )
    (folder,) = tmp_path.iterdir()
    retrieve(collection, "hybrid", index_path=tmp_path)
    (folder / "bm25-1/stamp").unlink()
    whole = retrieve(collection, "bm25", index_path=tmp_path)

    assert set(stages) == {"terms", "bm25"}
    assert folder.name == f"small-{collection.manifest.content_hash[:12]}-bm25"
    assert whole == alone
    assert not (folder / "bm25-1/stamp").exists()  # the whole index was searched
    assert len(HybridIndex.open(tmp_path).retrievers) == 3


def test_the_terms_are_counted_once(collection: Collection, tmp_path: Path) -> None:
    stages: list[str] = []
    first = retrieve(collection, "bm25", index_path=tmp_path)
    again = retrieve(
        collection, "bm25", index_path=tmp_path, progress=lambda stage, _: stages.append(stage)
    )

    assert (again, stages) == (first, [])
