"""Fusion by hand, by property, and against ranx 0.3.21."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from freshstack_dspy.config import FusionConfig, FusionMethod
from freshstack_dspy.errors import IndexingError
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
        "a": 2.1346153846153846,
        "c": 1.7391304347826086,
        "g": 1.0,
        "f": 0.7692307692307692,
        "b": 0.7608695652173914,
        "d": 0.2826086956521739,
        "e": 0.25,
        "h": 0.0,
    },
    "weighted": {  # fuse(norm="min-max", method="wsum", params={"weights": [0.5, 1.0, 0.25]})
        "c": 1.3695652173913042,
        "a": 1.0721153846153846,
        "f": 0.7692307692307692,
        "b": 0.3804347826086957,
        "g": 0.25,
        "d": 0.14130434782608695,
        "e": 0.0625,
        "h": 0.0,
    },
    "comb_mnz": {  # fuse(norm="min-max", method="mnz")
        "a": 6.403846153846153,
        "c": 3.4782608695652173,
        "g": 2.0,
        "f": 0.7692307692307692,
        "b": 0.7608695652173914,
        "e": 0.5,
        "d": 0.2826086956521739,
        "h": 0.0,
    },
    "rrf": {  # fuse(norm=None, method="rrf")
        "a": 0.04839549075403121,
        "c": 0.032266458495966696,
        "g": 0.032018442622950824,
        "e": 0.03125763125763126,
        "b": 0.016129032258064516,
        "f": 0.016129032258064516,
        "d": 0.015625,
        "h": 0.015625,
    },
    "isr": {  # fuse(norm=None, method="isr")
        "a": 4.083333333333334,
        "c": 2.2222222222222223,
        "g": 2.125,
        "e": 0.3022222222222222,
        "b": 0.25,
        "f": 0.25,
        "d": 0.0625,
        "h": 0.0625,
    },
}


def ranking(scores: dict[str, float] | dict[str, int]) -> list[ScoredChunk]:
    return [ScoredChunk(chunk_id, float(score)) for chunk_id, score in scores.items()]


def rankings(**lists: dict[str, float]) -> dict[str, list[ScoredChunk]]:
    return {name: ranking(scores) for name, scores in lists.items()}


def by(method: FusionMethod) -> FusionConfig:
    return FusionConfig(method=method)


def ids(fused: list[ScoredChunk]) -> list[str]:
    return [entry.chunk_id for entry in fused]


def test_normalised_sum_by_hand() -> None:
    lists = rankings(bm25={"a": 10.0, "b": 6.0, "c": 2.0}, lsa={"c": 0.9, "d": 0.8, "a": 0.5})

    # bm25: a 1, b .5, c 0; lsa: c 1, d .75, a 0
    assert fuse(lists, 10, SUM) == ranking({"a": 1.0, "c": 1.0, "d": 0.75, "b": 0.5})


def test_weighted_by_hand() -> None:
    lists = rankings(bm25={"a": 10.0, "b": 6.0, "c": 2.0}, lsa={"c": 0.9, "d": 0.8, "a": 0.5})
    fusion = FusionConfig(method="weighted", weights={"lsa": 4})  # bm25 weighs 1, so a quarter

    assert fuse(lists, 10, fusion) == ranking({"c": 1.0, "d": 0.75, "a": 0.25, "b": 0.125})


def test_comb_mnz_by_hand() -> None:
    lists = rankings(bm25={"a": 10.0, "b": 6.0, "c": 2.0}, lsa={"c": 0.9, "d": 0.8, "a": 0.5})

    # a and c are in both, each with 0 in one
    assert fuse(lists, 10, by("comb_mnz")) == ranking({"a": 2.0, "c": 2.0, "d": 0.75, "b": 0.5})


def test_rrf_by_hand() -> None:
    lists = rankings(bm25={"a": 10.0, "b": 6.0}, lsa={"b": 0.9, "c": 0.8})

    # 1/61 + 1/62 as one fraction: the sum of the two floating-point numbers is one bit less
    expected = ranking({"b": (61 + 62) / (61 * 62), "a": 1 / 61, "c": 1 / 62})
    assert fuse(lists, 10, by("rrf")) == expected


def test_isr_by_hand() -> None:
    lists = rankings(bm25={"a": 10.0, "b": 6.0}, lsa={"b": 0.9, "c": 0.8})

    assert fuse(lists, 10, by("isr")) == ranking({"b": 2 * (1 + 0.25), "a": 1.0, "c": 0.25})


def test_z_score_by_hand() -> None:
    lists = rankings(bm25={"a": 3.0, "b": 1.0}, lsa={"c": 8.0, "a": 6.0, "b": 6.0, "d": 4.0})

    # bm25: mean 2, deviation 1; lsa: mean 6, deviation √2; c and d get the -1 of bm25's last
    root = round(math.sqrt(2), 9)
    assert fuse(lists, 10, by("z_score")) == ranking(
        {"a": 1.0, "c": round(root - 1, 9), "b": -1.0, "d": round(-root - 1, 9)}
    )


@pytest.mark.parametrize("method", BY_RANX)
def test_scores_are_those_of_ranx(method: FusionMethod) -> None:
    weights = {"bm25": 0.5, "lsa": 1.0, "negative": 0.25} if method == "weighted" else {}
    fusion = FusionConfig(method=method, weights=weights)

    fused = fuse(rankings(bm25=BM25, lsa=LSA, negative=NEGATIVE), 10, fusion)

    expected = BY_RANX[method]
    assert ids(fused) == list(expected)
    assert dict(fused) == pytest.approx(expected, abs=1e-9)


def test_z_scores_of_lists_with_the_same_chunks_are_those_of_ranx() -> None:
    """Of a chunk that a list lacks, ranx makes an average one, before those found below it."""
    lists = rankings(
        bm25={"a": 12.5, "b": 9.75, "c": 9.5, "d": 4.25},
        lsa={"c": 0.9, "a": 0.75, "d": 0.5, "b": 0.25},
    )

    by_ranx = {  # fuse(norm="zmuv", method="sum")
        "a": 1.7788824699480739,
        "c": 1.3797246167793311,
        "b": -1.1629012173980775,
        "d": -1.9957058693293268,
    }
    fused = fuse(lists, 10, by("z_score"))
    assert ids(fused) == list(by_ranx)
    assert dict(fused) == pytest.approx(by_ranx, abs=1e-9)


def test_a_ranking_of_one_chunk_gives_it_the_full_score() -> None:
    """In ranx, which gives it 0, a chunk that a retriever found alone counts as not found."""
    fused = fuse(rankings(bm25={"b": 0.001}, lsa={"a": 3.0, "b": 2.0}), 10, SUM)

    assert fused == ranking({"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("method", ["normalised_sum", "weighted", "comb_mnz"])
def test_equal_scores_all_count_in_full(method: FusionMethod) -> None:
    assert fuse(rankings(bm25={"b": 4.0, "a": 4.0}), 10, by(method)) == ranking(
        {"a": 1.0, "b": 1.0}
    )


@pytest.mark.parametrize("found", [{"b": 7.0}, {"b": 7.0, "c": 7.0}])
def test_z_scores_without_spread_put_what_was_found_one_deviation_up(
    found: dict[str, float],
) -> None:
    fused = fuse(rankings(bm25=found, lsa={"a": 3.0, "b": 1.0}), 10, by("z_score"))

    # lsa: a 1, b -1, and c is lacking; bm25: 0 for b and c, -1 for a
    assert fused[:2] == ranking({"a": 0.0, "b": -1.0})
    assert fused[2:] == ranking({"c": -1.0} if "c" in found else {})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lists", [{}, {"bm25": []}, {"bm25": [], "lsa": []}])
def test_nothing_fuses_to_nothing(
    lists: dict[str, list[ScoredChunk]], method: FusionMethod
) -> None:
    assert fuse(lists, 10, by(method)) == []


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_ranking_changes_nothing(method: FusionMethod) -> None:
    one = ranking({"a": 3.0, "b": 2.0, "c": 1.0})

    assert fuse({"bm25": one, "lsa": []}, 10, by(method)) == fuse({"bm25": one}, 10, by(method))


@pytest.mark.parametrize("method", METHODS)
def test_one_ranking_keeps_its_order(method: FusionMethod) -> None:
    one = rankings(bm25={"c": -7.5, "a": -2.0, "b": -3.0, "d": -2.0})

    assert ids(fuse(one, 10, by(method))) == ["a", "d", "b", "c"]


@pytest.mark.parametrize("method", METHODS)
def test_an_unsorted_ranking_keeps_its_best_chunk_at_the_depth_cut(method: FusionMethod) -> None:
    """FreshStack's own fusion cuts first and loses the best one."""
    unsorted = rankings(bm25={"c": 1.0, "b": 2.0, "a": 3.0})

    assert ids(fuse(unsorted, 2, by(method))) == ["a", "b"]


@pytest.mark.parametrize("method", METHODS)
def test_what_lies_below_the_depth_changes_nothing(method: FusionMethod) -> None:
    short = ranking({"a": 3.0, "b": 2.0, "c": 1.0})
    long = [*short, ScoredChunk("d", -1000.0)]

    assert fuse({"bm25": short}, 3, by(method)) == fuse({"bm25": long}, 3, by(method))


def test_close_scores_stay_apart() -> None:
    """FreshStack's own fusion rounds to three decimals and so makes ties."""
    close = rankings(bm25={"z": 1.0000002, "a": 1.0000001, "m": 1.0, "b": 0.0})

    for method in METHODS:
        assert ids(fuse(close, 10, by(method))) == ["z", "a", "m", "b"]


def test_deep_ranks_stay_apart() -> None:
    deep = {"bm25": [ScoredChunk(f"{39_999 - row:05}", -float(row)) for row in range(40_000)]}

    for method in ("rrf", "isr"):
        assert ids(fuse(deep, 40_000, FusionConfig(method=method)))[-2:] == ["00001", "00000"]


def test_equal_sums_of_other_ranks_are_equal() -> None:
    """1/70 + 1/105 is 2/84, but not where floating-point numbers are added."""
    filler = {f"filler {row:03}": -float(row) for row in range(1, 60)}
    lists = []
    for of_a, of_b in ((10, 24), (45, 24)):
        ranked = list(filler)
        ranked[of_a - 1], ranked[of_b - 1] = "b", "a"
        lists.append({chunk_id: -float(rank) for rank, chunk_id in enumerate(ranked)})

    scores = dict(fuse(rankings(bm25=lists[0], lsa=lists[1]), 100, by("rrf")))
    assert scores["a"] == scores["b"] == 1 / 42


def test_equal_sums_of_other_scores_are_equal() -> None:
    """.1 + .2 is .3, but not where floating-point numbers are added."""
    lists = rankings(
        bm25={"x": 1.0, "a": 0.3, "b": 0.1, "y": 0.0}, lsa={"x": 1.0, "b": 0.2, "a": 0.0}
    )

    assert fuse(lists, 10, SUM) == ranking({"x": 2.0, "a": 0.3, "b": 0.3, "y": 0.0})


def test_a_ranking_of_weight_0_is_left_out() -> None:
    lists = rankings(bm25={"a": 2.0, "b": 1.0}, lsa={"c": 1.0})
    fusion = FusionConfig(method="weighted", weights={"lsa": 0})

    assert fuse(lists, 10, fusion) == ranking({"a": 1.0, "b": 0.0})


def test_equal_weights_are_the_normalised_sum() -> None:
    lists = rankings(bm25=BM25, lsa=LSA)
    fusion = FusionConfig(method="weighted", weights={"bm25": 0.3, "lsa": 0.3})

    assert fuse(lists, 10, fusion) == fuse(lists, 10, SUM)


@given(LISTS, st.integers(1, 10), FUSIONS)
def test_the_order_of_rankings_and_of_their_entries_does_not_matter(
    lists: dict[str, dict[str, int]], depth: int, fusion: FusionConfig
) -> None:
    given_order = {name: ranking(scores) for name, scores in lists.items()}
    other_order = {name: given_order[name][::-1] for name in reversed(given_order)}

    assert repr(fuse(other_order, depth, fusion)) == repr(fuse(given_order, depth, fusion))


@given(SCORES, SCORES, st.integers(1, 10), st.floats(0.01, 1000), st.floats(-1000, 1000), FUSIONS)
def test_the_scale_of_a_ranking_does_not_matter(
    one: dict[str, int],
    other: dict[str, int],
    depth: int,
    factor: float,
    shift: float,
    fusion: FusionConfig,
) -> None:
    rescaled = {chunk_id: score * factor + shift for chunk_id, score in one.items()}

    plain = fuse({"bm25": ranking(one), "lsa": ranking(other)}, depth, fusion)
    scaled = fuse({"bm25": ranking(rescaled), "lsa": ranking(other)}, depth, fusion)

    assert ids(scaled) == ids(plain)
    assert [s for _, s in scaled] == pytest.approx([s for _, s in plain], abs=4e-9)


@given(LISTS, st.integers(1, 10), FUSIONS)
def test_the_result_is_totally_ordered_and_finite(
    lists: dict[str, dict[str, int]], depth: int, fusion: FusionConfig
) -> None:
    fused = fuse({name: ranking(scores) for name, scores in lists.items()}, depth, fusion)

    assert fused == sorted(fused, key=lambda entry: (-entry.score, entry.chunk_id))
    assert len(fused) == len(set(ids(fused))) <= depth
    assert set(ids(fused)) <= {chunk_id for scores in lists.values() for chunk_id in scores}
    assert all(math.isfinite(score) for _, score in fused)


@given(SCORES, SCORES, st.sampled_from(["normalised_sum", "comb_mnz", "rrf", "isr"]))
def test_to_be_found_last_is_never_worse_than_not_to_be_found(
    one: dict[str, int], other: dict[str, int], method: FusionMethod
) -> None:
    lists = {"bm25": ranking(one), "lsa": ranking({"x": 0, **other})}
    last = ranking({"x": min(one.values(), default=0)})

    without = dict(fuse(lists, 10, by(method)))
    found = dict(fuse({**lists, "bm25": lists["bm25"] + last}, 10, by(method)))

    assert found["x"] >= without["x"]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(-1e300, 1e300), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.floats(-1e-300, 1e-300), max_size=4),
    FUSIONS,
)
def test_huge_and_tiny_scores_overflow_nowhere(
    huge: dict[str, float], tiny: dict[str, float], fusion: FusionConfig
) -> None:
    fused = fuse({"bm25": ranking(huge), "lsa": ranking(tiny)}, 10, fusion)

    assert {entry.chunk_id for entry in fused} == huge.keys() | tiny.keys()
    assert all(abs(score) < 10 for _, score in fused)


@pytest.mark.parametrize("method", METHODS)
def test_a_chunk_that_stands_twice_is_named(method: FusionMethod) -> None:
    with pytest.raises(IndexingError, match="the ranking of lsa holds chunk 'a' twice"):
        fuse({"lsa": [ScoredChunk("a", 2.0), ScoredChunk("a", 1.0)]}, 10, by(method))


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 2e300])
@pytest.mark.parametrize("method", METHODS)
def test_a_score_that_is_no_number_is_refused(score: float, method: FusionMethod) -> None:
    with pytest.raises(IndexingError, match=r"lsa scores chunk 'a'.*not finite, or beyond 1e\+300"):
        fuse({"lsa": [ScoredChunk("a", score)]}, 10, by(method))


def test_weights_that_are_all_0_are_refused() -> None:
    fusion = FusionConfig(method="weighted", weights={"bm25": 0, "lsa": 0})

    with pytest.raises(IndexingError, match="bm25, lsa all weigh 0"):
        fuse(rankings(bm25=BM25, lsa=LSA), 10, fusion)


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_is_a_number_from_0(weight: float) -> None:
    with pytest.raises(ValidationError, match=r"weights\.lsa"):
        FusionConfig(method="weighted", weights={"lsa": weight})


def test_weights_that_nobody_would_use_are_refused() -> None:
    with pytest.raises(ValidationError, match='weights are for method = "weighted"'):
        FusionConfig(method="rrf", weights={"lsa": 2})
