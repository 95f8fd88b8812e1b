import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index import fuse_normalised_sum
from freshstack_dspy.records import ScoredChunk

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 50), max_size=8)


def ranking(scores: dict[str, float] | dict[str, int]) -> list[ScoredChunk]:
    return [ScoredChunk(chunk_id, float(score)) for chunk_id, score in scores.items()]


def test_fusion_by_hand() -> None:
    first = ranking({"a": 10.0, "b": 6.0, "c": 2.0})
    second = ranking({"c": 0.9, "d": 0.8, "a": 0.5})

    # first: a 1, b .5, c 0; second: c 1, d .75, a 0
    assert fuse_normalised_sum([first, second], 10) == [
        ScoredChunk("a", 1.0),
        ScoredChunk("c", 1.0),
        ScoredChunk("d", 0.75),
        ScoredChunk("b", 0.5),
    ]


def test_a_ranking_of_one_chunk_gives_it_the_full_score() -> None:
    fused = fuse_normalised_sum([ranking({"b": 0.001}), ranking({"a": 3.0, "b": 2.0})], 10)

    assert fused == [ScoredChunk("a", 1.0), ScoredChunk("b", 1.0)]


def test_equal_scores_all_count_in_full() -> None:
    fused = fuse_normalised_sum([ranking({"b": 4.0, "a": 4.0})], 10)

    assert fused == [ScoredChunk("a", 1.0), ScoredChunk("b", 1.0)]


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_fuses_to_nothing(rankings: list[list[ScoredChunk]]) -> None:
    assert fuse_normalised_sum(rankings, 10) == []


def test_an_empty_ranking_changes_nothing() -> None:
    one = ranking({"a": 3.0, "b": 2.0, "c": 1.0})

    assert fuse_normalised_sum([one, []], 10) == fuse_normalised_sum([one], 10)


def test_an_unsorted_ranking_keeps_its_best_chunk_at_the_depth_cut() -> None:
    """FreshStack's own fusion cuts first and loses the best one."""
    unsorted = ranking({"c": 1.0, "b": 2.0, "a": 3.0})

    assert fuse_normalised_sum([unsorted], 2) == [ScoredChunk("a", 1.0), ScoredChunk("b", 0.0)]


def test_what_lies_below_the_depth_does_not_move_the_scale() -> None:
    short = ranking({"a": 3.0, "b": 2.0, "c": 1.0})
    long = [*short, ScoredChunk("d", -1000.0)]

    assert fuse_normalised_sum([short], 3) == fuse_normalised_sum([long], 3)


def test_close_scores_stay_apart() -> None:
    """FreshStack's own fusion rounds to three decimals and so makes ties."""
    close = ranking({"z": 1.0000002, "a": 1.0000001, "m": 1.0, "b": 0.0})

    assert [entry.chunk_id for entry in fuse_normalised_sum([close], 10)] == ["z", "a", "m", "b"]


@given(st.lists(SCORES, max_size=5), st.integers(1, 10))
def test_the_order_of_the_rankings_does_not_matter(lists: list[dict[str, int]], depth: int) -> None:
    rankings = [ranking(scores) for scores in lists]

    assert fuse_normalised_sum(rankings[::-1], depth) == fuse_normalised_sum(rankings, depth)


@given(SCORES, SCORES, st.integers(1, 10), st.floats(0.01, 1000), st.floats(-1000, 1000))
def test_the_scale_of_a_ranking_does_not_matter(
    one: dict[str, int], other: dict[str, int], depth: int, factor: float, shift: float
) -> None:
    rescaled = {chunk_id: score * factor + shift for chunk_id, score in one.items()}

    plain = fuse_normalised_sum([ranking(one), ranking(other)], depth)
    scaled = fuse_normalised_sum([ranking(rescaled), ranking(other)], depth)

    assert [entry.chunk_id for entry in scaled] == [entry.chunk_id for entry in plain]
    for ours, theirs in zip(plain, scaled, strict=True):
        assert math.isclose(ours.score, theirs.score, abs_tol=2e-9)


@given(st.lists(SCORES, max_size=5), st.integers(1, 10))
def test_the_result_is_totally_ordered_and_within_bounds(
    lists: list[dict[str, int]], depth: int
) -> None:
    fused = fuse_normalised_sum([ranking(scores) for scores in lists], depth)

    assert fused == sorted(fused, key=lambda entry: (-entry.score, entry.chunk_id))
    assert len(fused) <= depth
    assert all(0 <= entry.score <= len(lists) for entry in fused)


def test_a_chunk_that_stands_twice_is_named() -> None:
    with pytest.raises(IndexingError, match="chunk 'a' twice"):
        fuse_normalised_sum([[ScoredChunk("a", 2.0), ScoredChunk("a", 1.0)]], 10)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_refused(score: float) -> None:
    with pytest.raises(IndexingError, match=r"chunk 'a'.*not finite"):
        fuse_normalised_sum([[ScoredChunk("a", score)]], 10)
