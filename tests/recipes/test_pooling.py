"""Pooling, worked out by hand on five chunks and two scripted retrievers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import FusionConfig, PoolConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.records import Chunk, Expansion, Nugget, Query, ScoredChunk, Technique, ranked

QUERY = Query(query_id="7", title="How?", body="It fails.", answer="Call it twice.")
NUGGETS = [
    Nugget(nugget_id=f"7_{number}", query_id="7", text=text, call_id="k")
    for number, text in enumerate(["call it", "twice"])
]
SUB_QUESTIONS = Expansion(query_id="7", kind="sub_questions", texts=("Why?", "When?"), call_id="k")
CLOSED_BOOK = Expansion(query_id="7", kind="closed_book_answer", texts=("So.",), call_id="k")


Scores = dict[str, dict[str, dict[str, float]]]
"""By retriever, text and chunk."""


class WrittenRankings:
    """An index whose scores are written down."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def search(
        self, retriever: str, texts: Sequence[str], depth: int, *, fusion: FusionConfig
    ) -> list[list[ScoredChunk]]:
        return [ranked(self._scores[retriever].get(text, {}), depth) for text in texts]


def each_alone(texts: dict[Technique, str]) -> dict[Technique, tuple[str, ...]]:
    return {technique: (text,) for technique, text in texts.items()}


def pooled(
    scores: Scores,
    texts: dict[str, dict[Technique, str]],
    fusion: FusionConfig | None = None,
    **settings: Any,
) -> dict[tuple[str, str], tuple[list[tuple[str, int]], list[tuple[str, str, int]]]]:
    index: Any = WrittenRankings(scores)
    lists = {query_id: each_alone(of_query) for query_id, of_query in texts.items()}
    return {
        (candidate.query_id, candidate.chunk_id): (
            [(by.technique, by.rank) for by in candidate.pooled_by],
            [(found.technique, found.retriever, found.rank) for found in candidate.found_by],
        )
        for candidate in pool(index, lists, PoolConfig(**settings), fusion or FusionConfig())
    }


def test_each_technique_searches_with_its_text() -> None:
    assert technique_texts(QUERY, NUGGETS, [SUB_QUESTIONS, CLOSED_BOOK]) == {
        "question": ("How? It fails.",),
        "sub_questions": ("Why?", "When?"),
        "closed_book_answer": ("So.",),
        "answer": ("Call it twice.",),
        "nuggets": ("call it", "twice"),
    }


def test_a_technique_whose_text_is_missing_is_left_out() -> None:
    assert technique_texts(QUERY, [], [CLOSED_BOOK]).keys() == {
        "question",
        "closed_book_answer",
        "answer",
    }


def test_scores_are_normalised_over_depth_summed_and_cut_at_top_k() -> None:
    """bm25 gives a 1, b .5, c 0; lsa b 1, d .5, c 0; together b 1.5, a 1, d .5, c 0."""
    scores: Scores = {
        "bm25": {"q": {"a": 30, "b": 20, "c": 10, "e": 5}},
        "lsa": {"q": {"b": 0.9, "d": 0.8, "c": 0.7, "e": 0.1}},
    }

    found = pooled(scores, {"7": {"question": "q"}}, depth=3, top_k=3)

    assert found == {
        ("7", "a"): ([("question", 2)], [("question", "bm25", 1)]),
        ("7", "b"): ([("question", 1)], [("question", "bm25", 2), ("question", "lsa", 1)]),
        ("7", "d"): ([("question", 3)], [("question", "lsa", 2)]),
    }


def test_a_build_may_fuse_otherwise() -> None:
    """By rank, b is 1/62 + 1/61, a and d have one list each; e is cut off by depth."""
    scores: Scores = {
        "bm25": {"q": {"a": 30, "b": 20, "c": 10, "e": 5}},
        "lsa": {"q": {"b": 0.9, "d": 0.8, "c": 0.7, "e": 0.1}},
    }
    by_rank = FusionConfig(method="rrf")
    mostly_lsa = FusionConfig(method="weighted", weights={"bm25": 0.1})
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q"}}

    ranked_by_rank = pooled(scores, texts, by_rank, depth=3, top_k=2)
    weighted = pooled(scores, texts, mostly_lsa, depth=3, top_k=2)

    assert [chunk_id for _, chunk_id in ranked_by_rank] == ["b", "c"]  # c: 1/63 + 1/63 > 1/61
    assert [chunk_id for _, chunk_id in weighted] == ["b", "d"]


def test_retrievers_may_be_any_that_the_index_has() -> None:
    scores = {"small": {"q": {"a": 1.0}}, "hybrid+rerank": {"q": {"b": -3.0}}}
    names = ("hybrid+rerank", "small")

    found = pooled(scores, {"7": {"question": "q"}}, retrievers=names, depth=1, top_k=1)

    assert found == {("7", "a"): ([("question", 1)], [("question", "small", 1)])}


def test_ties_are_cut_by_id() -> None:
    scores = {"bm25": {"q": {"b": 1.0, "a": 1.0, "c": 1.0}}}

    found = pooled(scores, {"7": {"question": "q"}}, depth=3, top_k=2, retrievers=("bm25",))

    assert [chunk_id for _, chunk_id in found] == ["a", "b"]


def test_a_chunk_remembers_every_technique_and_retriever_that_found_it() -> None:
    """Also those in whose cut list it is not: c is second for the answer, and one is taken."""
    scores = {"bm25": {"q": {"c": 2.0, "a": 1.0}, "r": {"b": 2.0, "c": 1.0}}}
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q", "answer": "r"}}

    found = pooled(scores, texts, depth=2, top_k=1, retrievers=("bm25",))

    assert found == {
        ("7", "b"): ([("answer", 1)], [("answer", "bm25", 1)]),
        ("7", "c"): ([("question", 1)], [("question", "bm25", 1), ("answer", "bm25", 2)]),
    }


def test_techniques_are_told_in_the_order_of_the_configuration() -> None:
    scores = {"bm25": {"q": {"a": 1.0}}}
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q", "nuggets": "q"}}
    order: tuple[Technique, ...] = ("nuggets", "question")

    found = pooled(scores, texts, depth=1, top_k=1, retrievers=("bm25",), techniques=order)

    assert found["7", "a"][0] == [("nuggets", 1), ("question", 1)]


def test_a_technique_that_is_not_configured_pools_nothing() -> None:
    scores = {"bm25": {"q": {"a": 1.0}, "r": {"b": 1.0}}}
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q", "answer": "r"}}

    found = pooled(scores, texts, depth=1, top_k=1, retrievers=("bm25",), techniques=("answer",))

    assert list(found) == [("7", "b")]


def test_queries_stay_in_the_given_order_and_chunks_stand_by_id() -> None:
    """A query that lacks a technique does not shift the others' rankings."""
    scores = {"bm25": {"q": {"b": 2.0, "a": 1.0}, "r": {"c": 1.0}, "s": {"d": 1.0}}}
    texts: dict[str, dict[Technique, str]] = {
        "9": {"question": "q"},
        "10": {"question": "r", "answer": "s"},
        "x": {"question": "nothing"},
    }

    found = pooled(scores, texts, depth=2, top_k=2, retrievers=("bm25",))

    assert list(found) == [("9", "a"), ("9", "b"), ("10", "c"), ("10", "d")]


def test_nothing_to_search_with_pools_nothing() -> None:
    assert pooled({"bm25": {}, "lsa": {}}, {}) == {}
    assert pooled({"bm25": {}, "lsa": {}}, {"7": {}}) == {}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    texts = {
        "a": "reset the dial twice",
        "b": "the dial of the moon",
        "c": "install it with pip",
        "d": "a dial, a dial",
        "e": "nothing of the kind",
    }
    chunks = [
        Chunk(chunk_id=name, source="s", path=name, start_byte=0, end_byte=9, text=text, tokens=3)
        for name, text in texts.items()
    ]
    root = tmp_path_factory.mktemp("index")
    return HybridIndex.build(root, "small", chunks, dimensions=3)


def test_the_pool_of_a_real_index_is_the_fusion_of_its_rankings(index: HybridIndex) -> None:
    config = PoolConfig(depth=4, top_k=2)
    texts = {"7": technique_texts(QUERY.model_copy(update={"title": "reset dial"}), NUGGETS, [])}

    found = pool(index, texts, config)

    for technique, parts in texts["7"].items():
        rankings = {name: index.search(name, ["\n".join(parts)], 4)[0] for name in ("bm25", "lsa")}
        best = [entry.chunk_id for entry in fuse(rankings, 4, FusionConfig())[:2]]
        ranks = {
            by.rank: candidate.chunk_id
            for candidate in found
            for by in candidate.pooled_by
            if by.technique == technique
        }
        assert ranks == dict(enumerate(best, 1)), technique
    assert any(candidate.chunk_id == "a" for candidate in found)


def test_the_hybrid_retriever_is_fused_as_the_rankings_are(index: HybridIndex) -> None:
    """As the sum of one, its order is that of the fusion itself; rrf and the sum differ here."""
    texts = {"7": each_alone({"question": "dial of the moon reset"})}
    config = PoolConfig(depth=4, top_k=4, retrievers=("hybrid",))

    for fusion in (FusionConfig(), FusionConfig(method="rrf")):
        found = pool(index, texts, config, fusion)
        ranks = {candidate.found_by[0].rank: candidate.chunk_id for candidate in found}
        hybrid = index.search("hybrid", texts["7"]["question"], 4, fusion=fusion)[0]
        assert ranks == {rank: chunk_id for rank, (chunk_id, _) in enumerate(hybrid, 1)}


def test_an_unknown_retriever_is_refused(index: HybridIndex) -> None:
    config: Any = PoolConfig().model_copy(update={"retrievers": ("bm52",)})

    with pytest.raises(IndexingError, match="no retriever 'bm52'"):
        pool(index, {"7": {"question": ("dial",)}}, config)


def test_the_pool_is_the_same_however_many_queries_go_with_one(index: HybridIndex) -> None:
    config = PoolConfig(depth=3, top_k=3)
    one = each_alone({"question": "dial of the moon", "answer": "pip"})
    other = each_alone({"question": "reset"})

    alone = pool(index, {"7": one}, config)
    together = pool(index, {"6": other, "7": one, "8": other}, config)

    assert [candidate for candidate in together if candidate.query_id == "7"] == alone


def test_an_index_is_found_again_and_pools_the_same(index: HybridIndex, tmp_path: Path) -> None:
    dimensions = 3
    again = HybridIndex.build(tmp_path, "again", list(index.chunks()), dimensions=dimensions)
    texts = {"7": each_alone({"question": "dial of the moon"})}

    assert pool(again, texts, PoolConfig()) == pool(index, texts, PoolConfig())
