"""What holds of retrievers that need models, of filters, and of approximate search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index import searching
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.settings import IndexSettings
from tests.index.pieces import (
    GUIDE,
    SMALL,
    Letters,
    Shortest,
    files_of,
    many,
    piece,
    rankings,
)

NAME = "index"
CHUNKS = [
    *many(150),
    *(
        chunk.model_copy(update={"source": "other", "chunk_id": f"other{chunk.chunk_id}"})
        for chunk in many(50, 1)
    ),
]
QUERIES = [chunk.text for chunk in many(6, seed=2)] + ["", "unheard"]
ALL = ("bm25", "lsa", "letters", "digits.v1", "hybrid", "hybrid+rerank")


@pytest.fixture(scope="module")
def embedders() -> list[Letters]:
    return [Letters(), Letters("digits.v1", "0123456789")]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, embedders: list[Letters]) -> HybridIndex:
    return HybridIndex.build(
        tmp_path_factory.mktemp("indexes"),
        NAME,
        CHUNKS,
        embedders=embedders,
        reranker=Shortest(),
        rerank_depth=20,
        settings=IndexSettings(16),
    )


def test_all_retrievers_are_named(index: HybridIndex) -> None:
    assert index.retrievers == ALL


def test_an_embedder_ranks_by_cosine(index: HybridIndex, embedders: list[Letters]) -> None:
    """Computed again for all chunks, unrounded and one by one."""
    (found,) = index.search("letters", [QUERIES[0]], 10)

    query = embedders[0].embed_queries([QUERIES[0]])[0].astype(float)
    cosines = {}
    for chunk in CHUNKS:
        vector = embedders[0].embed_queries([f"{chunk.path}\n{chunk.text}"])[0].astype(float)
        cosines[chunk.chunk_id] = query @ vector / np.linalg.norm(query) / np.linalg.norm(vector)
    assert [score for _, score in found] == pytest.approx(
        sorted(cosines.values(), reverse=True)[:10], abs=1e-6
    )
    assert [cosines[chunk_id] for chunk_id, _ in found] == pytest.approx(
        [score for _, score in found], abs=1e-6
    )


@pytest.mark.parametrize("method", ["normalised_sum", "rrf", "weighted"])
def test_hybrid_fuses_all_others(index: HybridIndex, method: Any) -> None:
    fusion = FusionConfig(method=method, weights={"bm25": 3.0} if method == "weighted" else {})
    parts = {name: index.search(name, QUERIES[:1], 15)[0] for name in ALL[:4]}

    assert index.search("hybrid", QUERIES[:1], 15, fusion=fusion) == [fuse(parts, 15, fusion)]


def test_a_reranker_orders_the_first_chunks_of_hybrid(index: HybridIndex) -> None:
    (hybrid,) = index.search("hybrid", QUERIES[:1], 20)
    expected = sorted(
        (-float(len(f"{chunk.path}\n{chunk.text}")), chunk_id)
        for chunk_id, chunk in index.chunks_by_id(entry.chunk_id for entry in hybrid).items()
    )
    expected.sort(key=lambda pair: (-pair[0], pair[1]))

    (found,) = index.search("hybrid+rerank", QUERIES[:1], 100)
    (first,) = index.search("hybrid+rerank", QUERIES[:1], 3)

    assert [(score, chunk_id) for chunk_id, score in found] == expected
    assert first == found[:3]


@pytest.mark.parametrize("scores", [[1.0], [float("nan")] * 20, []])
def test_a_reranker_that_gives_no_scores_is_told(
    index: HybridIndex, embedders: list[Letters], scores: list[float]
) -> None:
    class Broken(Shortest):
        def scores(self, text: str, passages: Any) -> list[float]:
            return scores

    opened = HybridIndex.open(index.path, embedders=embedders, reranker=Broken(), rerank_depth=20)

    with pytest.raises(IndexingError, match="one number for each"):
        opened.search("hybrid+rerank", QUERIES[:1], 5)


def test_an_index_without_its_embedders_searches_by_the_rest(index: HybridIndex) -> None:
    opened = HybridIndex.open(index.path)

    assert opened.retrievers == ("bm25", "lsa")
    assert opened.search("bm25", QUERIES, 9) == index.search("bm25", QUERIES, 9)
    for retriever in ("letters", "hybrid", "hybrid+rerank"):
        with pytest.raises(IndexingError, match=r"'letters'.*open the index with it"):
            opened.search(retriever, QUERIES, 9)
    with pytest.raises(IndexingError, match=r"one of bm25, lsa$"):
        opened.search("letter", QUERIES, 9)


def test_one_embedder_is_enough_to_search_by_it(
    index: HybridIndex, embedders: list[Letters]
) -> None:
    opened = HybridIndex.open(index.path, embedders=embedders[1:])

    assert opened.retrievers == ("bm25", "lsa", "digits.v1")
    assert opened.search("digits.v1", QUERIES, 9) == index.search("digits.v1", QUERIES, 9)


def test_reranking_without_a_reranker_is_refused(
    index: HybridIndex, embedders: list[Letters]
) -> None:
    opened = HybridIndex.open(index.path, embedders=embedders)

    with pytest.raises(IndexingError, match="needs a reranker"):
        opened.search("hybrid+rerank", QUERIES, 9)


def test_another_model_under_the_name_of_an_embedder_is_refused(index: HybridIndex) -> None:
    with pytest.raises(IndexingError, match=r"no vectors of embedder 'letters' as it is"):
        HybridIndex.open(index.path, embedders=[Letters(letters="xyz")])


@pytest.mark.parametrize("name", ["bm25", "lsa", "hybrid", "hybrid+rerank", "twin"])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IndexingError, match="which is taken"):
        HybridIndex.build(tmp_path, NAME, SMALL, embedders=[Letters("twin"), Letters(name)])


def test_vectors_of_known_content_are_used_again_by_the_same_model_only(tmp_path: Path) -> None:
    first, same, other = Letters(), Letters("renamed"), Letters(letters="xyz")
    HybridIndex.build(tmp_path, NAME, SMALL, embedders=[first])

    built = HybridIndex.build(
        tmp_path, NAME, [*SMALL[1:], piece("new", "text")], embedders=[same, other]
    )

    assert same.embedded == ["new\ntext"]
    assert len(other.embedded) == len(SMALL)
    assert built.search("renamed", ["abc"], 9) == HybridIndex.build(
        tmp_path, "fresh", list(built.chunks()), embedders=[Letters("renamed")]
    ).search("renamed", ["abc"], 9)


def test_an_embedder_that_gives_no_numbers_leaves_what_stood(tmp_path: Path) -> None:
    class Broken(Letters):
        def embed_queries(self, texts: Any) -> Any:
            return np.full((len(texts), 3), np.nan)

    HybridIndex.build(tmp_path, NAME, SMALL)

    with pytest.raises(IndexingError, match="'broken' gave text 1 of 6"):
        HybridIndex.build(tmp_path, NAME, SMALL, embedders=[Broken("broken")])
    assert len(HybridIndex.open(tmp_path)) == len(SMALL)


def test_a_chunk_without_a_vector_is_not_found_by_it(tmp_path: Path) -> None:
    index = HybridIndex.build(
        tmp_path, NAME, [piece("x", "zzz"), piece("y", "abc")], embedders=[Letters()]
    )

    (found,) = index.search("letters", ["cab"], 9)

    assert [chunk_id for chunk_id, _ in found] == ["repo/y_0_3"]


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("source = 'other'", lambda chunk: chunk.source == "other"),
        ("tokens > 30", lambda chunk: chunk.tokens > 30),
        ("path LIKE 'file1%' AND start_byte = 0", lambda chunk: chunk.path.startswith("file1")),
        ("path IN ('file3.py', 'file4.py')", lambda chunk: chunk.path in ("file3.py", "file4.py")),
        ("false", lambda _: False),
        ("true", lambda _: True),
    ],
)
@pytest.mark.parametrize("retriever", ALL)
def test_a_filter_is_held_to_exactly(
    index: HybridIndex, retriever: str, where: str, holds: Any
) -> None:
    allowed = {chunk.chunk_id for chunk in CHUNKS if holds(chunk)}

    found = index.search(retriever, QUERIES, 20, where=where)

    assert all(entry.chunk_id in allowed for ranking in found for entry in ranking)
    if retriever in ("bm25", "lsa", "letters"):  # of single rankings it takes away, no more
        every = index.search(retriever, QUERIES, len(CHUNKS))
        assert found == [[each for each in one if each.chunk_id in allowed][:20] for one in every]


@pytest.mark.parametrize(
    "where", ["", "tokenz > 3", "tokens >", "1; DROP TABLE chunks", "tokens", "nofunction(path)"]
)
def test_a_filter_that_is_none_is_answered_with_the_columns(index: HybridIndex, where: str) -> None:
    with pytest.raises(IndexingError, match="chunk_id, source, path") as caught:
        index.search("bm25", QUERIES, 5, where=where)

    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def approximate(tmp_path_factory: pytest.TempPathFactory, embedders: list[Letters]) -> HybridIndex:
    return HybridIndex.build(
        tmp_path_factory.mktemp("indexes"),
        NAME,
        [*CHUNKS, piece("?", "?!")],
        embedders=embedders,
        settings=IndexSettings(16, "approximate"),
    )


def test_approximate_search_says_so_and_scores_exactly(
    index: HybridIndex, approximate: HybridIndex
) -> None:
    assert {each.search for each in approximate.stats().vectors} == {"approximate"}
    exact = dict(index.search("letters", QUERIES[:1], len(CHUNKS))[0])

    (found,) = approximate.search("letters", QUERIES[:1], 10)

    assert len(found) == 10
    assert [exact[chunk_id] for chunk_id, _ in found] == [score for _, score in found]


@pytest.mark.parametrize("few", [True, False])
def test_approximate_search_keeps_to_filters_and_finds_nothing_for_nothing(
    approximate: HybridIndex, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """What few chunks are left is searched exactly; that path is closed to try the other one."""
    if not few:
        monkeypatch.setattr(searching, "_EXACT_AMONG", 0)
    found = rankings(approximate, QUERIES, 10, where="source = 'other'")

    every = [entry.chunk_id for lists in found.values() for each in lists for entry in each]
    assert every
    assert all(chunk_id.startswith("other") for chunk_id in every)
    assert found["lsa"][-2:] == [[], []]


def test_an_index_of_one_chunk_can_be_searched_approximately(tmp_path: Path) -> None:
    index = HybridIndex.build(tmp_path, NAME, [GUIDE], settings=IndexSettings(4, "approximate"))

    assert [len(found) for found in index.search("hybrid", ["server", "?"], 5)] == [1, 0]


def test_updates_of_an_approximate_index_find_old_and_new(tmp_path: Path) -> None:
    chunks = many(100)
    settings = IndexSettings(16, "approximate")
    HybridIndex.build(tmp_path, NAME, chunks, files=files_of(chunks), settings=settings)
    now = [*chunks[2:], piece("new.py", "worda0 worda1 wordb2 zebra")]

    index, _ = HybridIndex.update(
        tmp_path, NAME, now[-1:], files=files_of(now), revisions={"repo": None}
    )

    (found,) = index.search("lsa", [now[-1].text], 3)
    assert found[0].chunk_id == now[-1].chunk_id
    (found,) = index.search("lsa", [now[0].text], 3)
    assert found[0].chunk_id == now[0].chunk_id


@pytest.mark.parametrize(
    "where", ["source = 'repo'; AND tokens > 5", "1 = 1; drop table chunks", ";", "path = ';' ; x"]
)
def test_what_follows_a_semicolon_is_not_dropped(tmp_path: Path, where: str) -> None:
    index = HybridIndex.build(tmp_path, "index", SMALL)

    with pytest.raises(IndexingError, match="it holds a semicolon"):
        index.search("bm25", ["read"], 10, where=where)
    index.search("bm25", ["read"], 10, where="path <> 'a;b' AND source = 'repo'")
