"""Pooling with several texts for a technique: joined to one, or each searched with."""

from collections.abc import Sequence
from typing import Any

from freshstack_dspy.config import FusionConfig, PoolConfig
from freshstack_dspy.recipes.pooling import pool
from freshstack_dspy.records import Candidate, ScoredChunk, ranked

from .test_pooling import Scores, WrittenRankings

ONE_RETRIEVER: dict[str, Any] = {"retrievers": ("bm25",), "techniques": ("nuggets",)}


def searched(
    scores: Scores, parts: tuple[str, ...], fusion: FusionConfig | None = None, **settings: Any
) -> list[Candidate]:
    index: Any = WrittenRankings(scores)
    texts: Any = {"7": {"nuggets": parts}}
    config = PoolConfig(**(ONE_RETRIEVER | settings))
    return pool(index, texts, config, fusion or FusionConfig())


def ranks(candidates: Sequence[Candidate]) -> dict[str, int]:
    return {each.chunk_id: each.found_by[0].rank for each in candidates}


def test_concatenated_texts_are_searched_with_as_one_as_in_the_paper() -> None:
    scores: Scores = {"bm25": {"x\ny": {"a": 2, "b": 1}, "x": {"c": 1}, "y": {"d": 1}}}

    assert ranks(searched(scores, ("x", "y"))) == {"a": 1, "b": 2}


def test_fused_texts_are_searched_with_alone_and_their_rankings_fused() -> None:
    """Normalised: x gives a 1, b .5, c 0; y gives d 1, b .75, e 0. b has 1.25, a and d 1."""
    scores: Scores = {
        "bm25": {
            "x\ny": {"z": 1},
            "x": {"a": 3, "b": 2, "c": 1},
            "y": {"d": 9, "b": 8, "e": 5},
        }
    }

    found = searched(scores, ("x", "y"), lists="fuse", depth=4, top_k=3)

    assert ranks(found) == {"b": 1, "a": 2, "d": 3}


def test_texts_are_fused_by_the_method_of_the_configuration() -> None:
    """By rank, b has 1/62 + 1/62 and a and c 1/61 each; weights are of retrievers, not of texts."""
    scores: Scores = {"bm25": {"x": {"a": 9, "b": 1}, "y": {"c": 9, "b": 1}}}

    by_rank = searched(scores, ("x", "y"), FusionConfig(method="rrf"), lists="fuse")
    weighted = FusionConfig(method="weighted", weights={"bm25": 0.5})

    assert ranks(by_rank) == {"b": 1, "a": 2, "c": 3}
    assert ranks(searched(scores, ("x", "y"), weighted, lists="fuse")) == {"a": 1, "c": 2, "b": 3}


def test_one_text_gives_the_same_either_way() -> None:
    scores: Scores = {"bm25": {"x": {"a": 3, "b": 3 - 1e-12, "c": 1}}}

    assert searched(scores, ("x",), lists="fuse") == searched(scores, ("x",))


def test_each_retriever_is_asked_once_for_a_technique_with_the_texts_of_all_queries() -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    class Counting(WrittenRankings):
        def search(
            self, retriever: str, texts: Sequence[str], depth: int, *, fusion: FusionConfig
        ) -> list[list[ScoredChunk]]:
            asked.append((retriever, tuple(texts)))
            return [ranked({text: 1.0}, depth) for text in texts]

    index: Any = Counting({})
    texts: Any = {"7": {"nuggets": ("x", "y")}, "8": {}, "9": {"nuggets": ("z",)}}

    found = pool(index, texts, PoolConfig(techniques=("nuggets",), lists="fuse"))

    assert asked == [("bm25", ("x", "y", "z")), ("lsa", ("x", "y", "z"))]
    assert [(each.query_id, each.chunk_id) for each in found] == [
        ("7", "x"),
        ("7", "y"),
        ("9", "z"),
    ]
