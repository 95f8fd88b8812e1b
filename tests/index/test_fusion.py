"""Fusion by hand, by property, and against ranx 0.3.21."""

import math
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Run, fuse_runs, write_run
from freshstack_dspy.config import FusionConfig, FusionMethod
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.records import ScoredChunk

METHODS: tuple[FusionMethod, ...] = get_args(FusionMethod)
SUM = FusionConfig()
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 50), max_size=8)
LISTS = st.dictionaries(st.sampled_from(["bm25", "lsa", "large"]), SCORES)
FUSIONS = st.one_of(
    st.sampled_from(METHODS).map(lambda method: FusionConfig(method=method)),
    st.fixed_dictionaries({"bm25": st.floats(0.01, 9), "lsa": st.floats(0.01, 9)}).map(
        lambda weights: FusionConfig(method="weighted", weights=weights)
    ),
)

# What ranx calls them, and what it gave for these three lists; its runs are cut nowhere.
BM25 = {"a": 12.5, "b": 9.75, "c": 9.5, "d": 4.25, "e": 1.0}
LSA = {"c": 0.9, "f": 0.75, "a": 0.5, "g": 0.25}
NEGATIVE = {"g": -1.0, "a": -2.0, "e": -4.0, "h": -5.0}
BY_RANX: dict[FusionMethod, dict[str, float]] = {
    "normalised_sum": {  # fuse(norm="min-max", method="sum")
        "a": 2.1346153846153846, "c": 1.7391304347826086, "g": 1.0, "f": 0.7692307692307692,
        "b": 0.7608695652173914, "d": 0.2826086956521739, "e": 0.25, "h": 0.0,
    },
    "weighted": {  # fuse(norm="min-max", method="wsum", params={"weights": [0.5, 1.0, 0.25]})
        "c": 1.3695652173913042, "a": 1.0721153846153846, "f": 0.7692307692307692,
        "b": 0.3804347826086957, "g": 0.25, "d": 0.14130434782608695, "e": 0.0625, "h": 0.0,
    },
    "rrf": {  # fuse(norm=None, method="rrf")
        "a": 0.04839549075403121, "c": 0.032266458495966696, "g": 0.032018442622950824,
        "e": 0.03125763125763126, "b": 0.016129032258064516, "f": 0.016129032258064516,
        "d": 0.015625, "h": 0.015625,
    },
}  # fmt: skip


def ranking(scores: dict[str, float] | dict[str, int]) -> list[ScoredChunk]:
    return [ScoredChunk(chunk_id, float(score)) for chunk_id, score in scores.items()]


def rankings(**lists: dict[str, float]) -> dict[str, list[ScoredChunk]]:
    return {name: ranking(scores) for name, scores in lists.items()}


def by(method: FusionMethod) -> FusionConfig:
    return FusionConfig(method=method)


def ids(fused: list[ScoredChunk]) -> list[str]:
    return [entry.chunk_id for entry in fused]


@pytest.mark.parametrize("method", BY_RANX)
def test_scores_are_those_of_ranx(method: FusionMethod) -> None:
    weights = {"bm25": 0.5, "lsa": 1.0, "negative": 0.25} if method == "weighted" else {}
    fusion = FusionConfig(method=method, weights=weights)

    fused = fuse(rankings(bm25=BM25, lsa=LSA, negative=NEGATIVE), 10, fusion)

    expected = BY_RANX[method]
    assert ids(fused) == list(expected)
    assert dict(fused) == pytest.approx(expected, abs=1e-9)


def test_a_ranking_of_one_chunk_gives_it_the_full_score() -> None:
    """In ranx, which gives it 0, a chunk that a retriever found alone counts as not found."""
    fused = fuse(rankings(bm25={"b": 0.001}, lsa={"a": 3.0, "b": 2.0}), 10, SUM)

    assert fused == ranking({"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_ranking_changes_nothing(method: FusionMethod) -> None:
    one = ranking({"a": 3.0, "b": 2.0, "c": 1.0})

    assert fuse({"bm25": one, "lsa": []}, 10, by(method)) == fuse({"bm25": one}, 10, by(method))


@pytest.mark.parametrize("method", METHODS)
def test_an_unsorted_ranking_keeps_its_best_chunk_at_the_depth_cut(method: FusionMethod) -> None:
    """FreshStack's own fusion cuts first and loses the best one."""
    unsorted = rankings(bm25={"c": 1.0, "b": 2.0, "a": 3.0})

    assert ids(fuse(unsorted, 2, by(method))) == ["a", "b"]


def test_equal_sums_of_other_ranks_are_equal() -> None:
    """1/70 + 1/105 is 2/84, but not where floating-point numbers are added."""
    filler = {f"filler {row:03}": -float(row) for row in range(1, 60)}
    lists = []
    for of_a, of_b in ((10, 24), (45, 24)):
        ranked = list(filler)
        ranked[of_a - 1], ranked[of_b - 1] = "b", "a"
        lists.append({chunk_id: -float(rank) for rank, chunk_id in enumerate(ranked)})

    scores = dict(fuse(rankings(bm25=lists[0], lsa=lists[1]), 100, by("rrf")))
    assert scores["a"] == scores["b"] == pytest.approx(1 / 42)


def test_a_ranking_of_weight_0_is_left_out() -> None:
    lists = rankings(bm25={"a": 2.0, "b": 1.0}, lsa={"c": 1.0})
    fusion = FusionConfig(method="weighted", weights={"lsa": 0})

    assert fuse(lists, 10, fusion) == ranking({"a": 1.0, "b": 0.0})


@given(LISTS, st.integers(1, 10), FUSIONS)
def test_the_order_of_rankings_and_of_their_entries_does_not_matter(
    lists: dict[str, dict[str, int]], depth: int, fusion: FusionConfig
) -> None:
    given_order = {name: ranking(scores) for name, scores in lists.items()}
    other_order = {name: given_order[name][::-1] for name in reversed(given_order)}

    assert repr(fuse(other_order, depth, fusion)) == repr(fuse(given_order, depth, fusion))


@given(LISTS, st.integers(1, 10), FUSIONS)
def test_the_result_is_totally_ordered_and_finite(
    lists: dict[str, dict[str, int]], depth: int, fusion: FusionConfig
) -> None:
    fused = fuse({name: ranking(scores) for name, scores in lists.items()}, depth, fusion)

    assert fused == sorted(fused, key=lambda entry: (-entry.score, entry.chunk_id))
    assert len(fused) == len(set(ids(fused))) <= depth
    assert set(ids(fused)) <= {chunk_id for scores in lists.values() for chunk_id in scores}
    assert all(math.isfinite(score) for _, score in fused)


def test_weights_that_are_all_0_are_an_error() -> None:
    fusion = FusionConfig(method="weighted", weights={"bm25": 0, "lsa": 0})

    with pytest.raises(IndexingError, match="bm25, lsa all weigh 0"):
        fuse(rankings(bm25=BM25, lsa=LSA), 10, fusion)


WEIGHTED = FusionConfig(method="weighted", weights={"bm25": 0.5, "lsa": 1, "other": 0.25})


@pytest.mark.parametrize("fusion", [by("normalised_sum"), WEIGHTED, by("rrf")])
def test_runs_are_fused_query_by_query(tmp_path: Path, fusion: FusionConfig) -> None:
    """In every form; a query that some lack is fused from the others."""
    write_run(Run("bm25", {"1": BM25}), tmp_path / "bm25.run")
    others = {"lsa": Run("any", {"1": LSA}), "other": {"1": NEGATIVE, "2": LSA}}

    with pytest.warns(UserWarning, match="of 2 queries these runs lack some: bm25 1, lsa 1"):
        run = fuse_runs({"bm25": tmp_path / "bm25.run", **others}, fusion, name="ours")

    assert run.name == "ours"
    known = fuse_runs([Run("bm25@nuggets", {"1": BM25}), Run("lsa", {"1": LSA})])
    assert known.name == "normalised_sum@nuggets"
    assert run.scores["1"] == pytest.approx(BY_RANX[fusion.method])
    assert run.ids["2"] == ("c", "f", "a", "g")


@pytest.mark.parametrize(
    ("runs", "weights", "fault"),
    [
        ([Run("a", {"1": BM25})], {}, "needs two runs, not 1"),
        ([Run("a", {"1": BM25}), Run("a", {"1": LSA})], {}, "two runs are called 'a'"),
        ([{"1": BM25}, {"2": LSA}], {}, "no query in common"),
        ({"a": {"1": BM25}, "b": {"1": LSA}}, {"c": 2}, "no run is named 'c'; there are: a, b"),
    ],
)
def test_runs_that_cannot_be_fused(runs: Any, weights: dict[str, float], fault: str) -> None:
    with pytest.raises(CollectionError, match=fault):
        fuse_runs(runs, FusionConfig(method="weighted", weights=weights))
