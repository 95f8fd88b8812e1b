"""Ties that the ids, or the file, broke among what a measure looks at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.conventions import OURS, Order
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk

NEAR = 1.0 + 2**-40
"""Another number than 1 in double precision, and the same in single."""


def run_of(*scores: float) -> Run:
    chunks = tuple(ScoredChunk(f"c{place}", score) for place, score in enumerate(scores))
    return Run("r", {"1": chunks})


def partly_tied(run: Run, *measures: str) -> bool:
    qrels = NuggetQrels({"1": ("1_0",)}, {"1_0": {"c0": 1}})
    return evaluate(qrels, run, measures).partly_tied == ("1",)


@pytest.mark.parametrize(
    ("measures", "tied"),
    [(["P@1"], False), (["P@2"], True), (["P@3"], True), (["P@1", "AP"], True)],
)
def test_a_tie_counts_within_and_across_the_deepest_cut_off(
    measures: list[str], tied: bool
) -> None:
    assert partly_tied(run_of(3.0, 2.0, 2.0, 1.0), *measures) == tied


def test_a_query_all_of_whose_scores_are_equal_is_only_among_the_tied() -> None:
    qrels = NuggetQrels({"1": ("1_0",)}, {"1_0": {"c0": 1}})
    found = evaluate(qrels, run_of(1.0, 1.0), ["AP"])

    assert (found.tied, found.partly_tied) == (("1",), ())


def test_programs_of_single_precision_see_more_ties_and_those_of_ranks_none() -> None:
    run = run_of(2.0, NEAR, 1.0)

    assert not OURS.breaks_ties(run, "1")
    assert Order(single=True).breaks_ties(run, "1")
    assert not Order(by="rank").breaks_ties(run_of(2.0, 1.0, 1.0), "1")
    assert not OURS.breaks_ties(run, "another")


@given(st.lists(st.integers(0, 9), min_size=2), st.integers(1, 12))
def test_ties_are_those_of_neighbours_that_begin_within_the_depth(
    scores: list[int], depth: int
) -> None:
    ordered = sorted(scores, reverse=True)
    expected = any(
        ordered[place] == ordered[place + 1] for place in range(min(depth, len(ordered) - 1))
    )

    assert OURS.breaks_ties(run_of(*map(float, scores)), "1", depth) == expected
