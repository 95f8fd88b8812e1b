import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct, t

from freshstack_dspy.measures.statistics import (
    detectable_difference,
    fewest_for_permutations,
    permutation_test,
    queries_needed,
)


@pytest.mark.parametrize("queries", [10, 25, 50, 200, 672])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.05 / 9, 0.05 / 30, 0.05 / 200])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_a_t_test_finds_it_as_often_as_was_asked(queries: int, alpha: float, power: float) -> None:
    difference = detectable_difference(0.3, queries, alpha=alpha, power=power)
    assert difference is not None
    noncentrality = difference / 0.3 * queries**0.5
    exact = nct.sf(t.ppf(1 - alpha / 2, queries - 1), queries - 1, noncentrality)

    assert exact == pytest.approx(power, abs=1e-6)


def test_by_hand() -> None:
    """About (1.960 + 0.842) / sqrt(50 - 1.921) = 0.404; (2.802 / 0.5)² + 1.921 = 33.3."""
    assert detectable_difference(1.0, 50) == pytest.approx(0.404, abs=5e-4)
    assert queries_needed(1.0, 0.5) == 34


@given(st.floats(0.01, 2), st.integers(12, 5000))
@settings(deadline=None)
def test_the_two_are_one_formula(deviation: float, queries: int) -> None:
    difference = detectable_difference(deviation, queries)
    assert difference is not None
    needed = queries_needed(deviation, difference)

    assert needed == queries
    assert needed == queries_needed(deviation, -difference)


def test_where_it_can_not_be_said() -> None:
    assert detectable_difference(1.0, 9) is None
    assert queries_needed(1.0, 0.0) is None
    assert queries_needed(1.0, 1e-300) is None
    assert queries_needed(1.0, 100.0) == 10
    with pytest.raises(ValueError, match="power is between 0 and 1, not 80"):
        queries_needed(1.0, 0.1, power=80)


@pytest.mark.parametrize(("alpha", "fewest"), [(0.5, 2), (0.05, 6), (0.05 / 30, 11), (2**-9, 10)])
def test_so_many_queries_are_needed_as_the_permutation_test_can_find(
    alpha: float, fewest: int
) -> None:
    enough, too_few = (permutation_test([1.0] * number) for number in (fewest, fewest - 1))

    assert fewest_for_permutations(alpha) == fewest
    assert enough.p_value is not None
    assert enough.p_value <= alpha
    assert too_few.p_value is None or too_few.p_value > alpha
    assert queries_needed(1.0, 100.0, alpha=alpha) == max(10, fewest)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 30, 1e-9])
@pytest.mark.parametrize("effect", [5.0, 0.5, 0.02, 0.0028, 0.0020])
def test_one_query_fewer_is_not_enough(alpha: float, effect: float) -> None:
    needed = queries_needed(1.0, effect, alpha=alpha)
    assert needed is not None
    just = detectable_difference(1.0, needed, alpha=alpha)
    before = detectable_difference(1.0, needed - 1, alpha=alpha)

    assert just is not None
    assert just <= effect * (1 + 1e-6)
    if needed > max(10, fewest_for_permutations(alpha)):
        assert before is not None
        assert before > effect * (1 - 1e-6)
