import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from freshstack_dspy.measures.statistics import deviation, t_test


def test_by_hand() -> None:
    """Mean 2, deviation 1: t = 2 / (1 / sqrt 3), and with 2 degrees p = 1 - t / sqrt(2 + t²)."""
    found = t_test([1.0, 2.0, 3.0])

    assert found.statistic == pytest.approx(12**0.5)
    assert found.p_value == pytest.approx(1 - (12 / 14) ** 0.5)
    assert (found.by, found.permutations, found.standard_error) == ("distribution", 0, 0)


@pytest.mark.parametrize("number", [2, 5, 50, 700])
def test_it_is_scipys(number: int) -> None:
    rng = random.Random(number)
    one = [rng.random() for _ in range(number)]
    other = [rng.random() for _ in range(number)]
    theirs = ttest_rel(one, other)
    ours = t_test([a - b for a, b in zip(one, other, strict=True)])

    assert (ours.statistic, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))


@given(st.lists(st.integers(-8, 8).map(float), min_size=2, max_size=30))
@settings(max_examples=50)
def test_swapping_the_runs_changes_the_sign_only(differences: list[float]) -> None:
    one, other = t_test(differences), t_test([-of for of in differences])

    assert one.p_value == other.p_value
    if one.p_value is not None:
        assert 0 < one.p_value <= 1
        assert one.statistic == -(other.statistic or 0.0)


def test_a_p_value_is_never_zero() -> None:
    p = t_test([1.0 + 1e-9 * (number % 2) for number in range(1000)]).p_value

    assert p is not None
    assert 0 < p < 1e-300


@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([], "a paired test needs two queries, not 0"),
        ([0.5], "a paired test needs two queries, not 1"),
        ([0.0, 0.0], "all 2 differences are 0: t is undefined"),
        ([0.3 - 0.2, 0.2 - 0.1], "all 2 differences are the same, 0.1: t is undefined"),
    ],
)
def test_where_t_is_undefined_it_says_why(differences: list[float], reason: str) -> None:
    found = t_test(differences)

    assert (found.p_value, found.statistic, found.reason) == (None, None, reason)


def test_tiny_values_have_a_deviation() -> None:
    assert deviation([1e-200, 3e-200]) == pytest.approx(2**0.5 * 1e-200)
