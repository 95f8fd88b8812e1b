import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nct, t

from freshstack_dspy.measures import detectable_difference, queries_needed


@pytest.mark.parametrize("queries", [10, 25, 50, 200, 672])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.05 / 9])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_a_t_test_finds_it_as_often_as_was_asked(queries: int, alpha: float, power: float) -> None:
    difference = detectable_difference(0.3, queries, alpha=alpha, power=power)
    assert difference is not None
    noncentrality = difference / 0.3 * queries**0.5
    exact = nct.sf(t.ppf(1 - alpha / 2, queries - 1), queries - 1, noncentrality)

    assert exact == pytest.approx(power, abs=0.01)


def test_by_hand() -> None:
    """(1.960 + 0.842) / sqrt(50 - 1.921) = 0.404; (2.802 / 0.5)² + 1.921 = 33.3."""
    assert detectable_difference(1.0, 50) == pytest.approx(0.404, abs=5e-4)
    assert queries_needed(1.0, 0.5) == 34


@given(st.floats(0.01, 2), st.integers(12, 5000))
def test_the_two_are_one_formula(deviation: float, queries: int) -> None:
    difference = detectable_difference(deviation, queries)
    assert difference is not None
    needed = queries_needed(deviation, difference)

    assert needed in {queries, queries + 1}, "but for rounding"
    assert needed == queries_needed(deviation, -difference)


def test_where_it_can_not_be_said() -> None:
    assert detectable_difference(1.0, 9) is None
    assert detectable_difference(1.0, 10, alpha=1e-6) is None
    assert queries_needed(1.0, 0.0) is None
    assert queries_needed(1.0, 1e-300) is None
    assert queries_needed(1.0, 100.0) == 10
    with pytest.raises(ValueError, match="power is between 0 and 1, not 80"):
        queries_needed(1.0, 0.1, power=80)
