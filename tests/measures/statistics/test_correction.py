import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from freshstack_dspy.measures.statistics import CorrectionName, adjust, strictest_level

p_lists = st.lists(st.floats(0, 1), max_size=12)
ADJUSTING: list[CorrectionName] = ["holm", "bonferroni", "bh"]


@pytest.mark.parametrize(
    ("correction", "adjusted"),
    [
        ("holm", [0.03, 0.06, 0.06, 0.02]),
        ("bonferroni", [0.04, 0.16, 0.12, 0.02]),
        ("bh", [0.02, 0.04, 0.04, 0.02]),
        ("none", [0.01, 0.04, 0.03, 0.005]),
    ],
)
def test_by_hand(correction: CorrectionName, adjusted: list[float]) -> None:
    """Holm of .005 .01 .03 .04: 4 × .005, 3 × .01, 2 × .03, then .04 raised to .06."""
    assert adjust([0.01, 0.04, 0.03, 0.005], correction) == pytest.approx(adjusted)


def test_holm_of_eight_by_hand() -> None:
    """8 × .001, 7 × .004, 6 × .01 = .06, 5 × .011 raised to .06, 4 × .03, 3 × .2, 2 × .35, .9."""
    p = [0.03, 0.001, 0.9, 0.01, 0.35, 0.004, 0.011, 0.2]

    assert adjust(p) == pytest.approx([0.12, 0.008, 0.9, 0.06, 0.7, 0.028, 0.06, 0.6])


@given(p_lists)
def test_benjamini_hochberg_is_scipys(p_values: list[float]) -> None:
    theirs = false_discovery_control(p_values).tolist() if p_values else []

    assert adjust(p_values, "bh") == pytest.approx(theirs)


@given(p_lists)
def test_holm_is_its_steps_one_after_the_other(p_values: list[float]) -> None:
    """The procedure as Holm wrote it: go on while the smallest p left is at most alpha / left."""
    for alpha in (0.01, 0.05, 0.3):
        left = sorted(p_values)
        rejected = 0
        while left and left[0] * len(left) <= alpha:
            left.pop(0)
            rejected += 1
        assert sum(p <= alpha for p in adjust(p_values)) == rejected


@given(p_lists, st.sampled_from(ADJUSTING), st.randoms(use_true_random=False))
def test_adjusted_values_keep_the_order_and_are_not_smaller(
    p_values: list[float], correction: CorrectionName, rng: random.Random
) -> None:
    adjusted = adjust(p_values, correction)
    paired = sorted(zip(p_values, adjusted, strict=True))
    shuffled = list(p_values)
    rng.shuffle(shuffled)

    assert all(p <= of <= 1 for p, of in paired)
    assert [of for _, of in paired] == sorted(adjusted)
    assert sorted(adjust(shuffled, correction)) == sorted(adjusted)
    for p, of in zip(p_values, adjusted, strict=True):
        assert {a for q, a in paired if q == p} == {of}


@given(p_lists)
def test_holm_stands_between_benjamini_hochberg_and_bonferroni(p_values: list[float]) -> None:
    found = {name: adjust(p_values, name) for name in ADJUSTING}

    for bh, holm, bonferroni in zip(found["bh"], found["holm"], found["bonferroni"], strict=True):
        assert bh <= holm * (1 + 1e-12)
        assert holm <= bonferroni


def test_one_test_needs_no_correction() -> None:
    assert [adjust([0.04], name) for name in ADJUSTING] == [[0.04]] * 3
    assert adjust([]) == []


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="a p-value is between 0 and 1"):
        adjust([0.5, p])


def test_the_smallest_p_value_is_held_against_the_level_divided() -> None:
    assert strictest_level(0.05, 5, "holm") == 0.01
    assert strictest_level(0.05, 5, "bonferroni") == 0.01
    assert strictest_level(0.05, 5, "bh") == 0.01
    assert strictest_level(0.05, 5, "none") == 0.05
    assert strictest_level(0.05, 0, "holm") == 0.05
