from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from freshstack_dspy.measures.statistics import Estimate, kendall_tau, spearman_rho, tau_ap

Correlation = Callable[[Mapping[str, float], Mapping[str, float]], Estimate]
EVERY: list[Correlation] = [kendall_tau, spearman_rho, tau_ap]

paired = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25)


def ordered(names: str) -> dict[str, float]:
    """Give names falling values."""
    return {name: float(-place) for place, name in enumerate(names)}


def both(pairs: list[tuple[int, int]]) -> tuple[dict[str, float], dict[str, float]]:
    return (
        {str(place): float(one) for place, (one, _) in enumerate(pairs)},
        {str(place): float(other) for place, (_, other) in enumerate(pairs)},
    )


def test_tau_by_hand() -> None:
    """Of six pairs of abcd, bacd has one the other way: (5 - 1) / 6."""
    assert kendall_tau(ordered("abcd"), ordered("bacd")).value == pytest.approx(4 / 6)


def test_tau_b_by_hand_with_a_tie() -> None:
    """Two of three pairs agree and one is tied in the second: 2 / sqrt(3 × 2)."""
    tied = {"a": 1.0, "b": 1.0, "c": 0.0}

    assert kendall_tau(ordered("abc"), tied).value == pytest.approx(2 / 6**0.5)


def test_tau_ap_by_hand() -> None:
    """Estimated bacd against abcd: 0/1, 2/2, 3/3, so 2/3 × 2 - 1; at the end, 1/1, 2/2, 2/3."""
    assert tau_ap(ordered("abcd"), ordered("bacd")).value == pytest.approx(2 / 3 * 2 - 1)
    assert tau_ap(ordered("abcd"), ordered("abdc")).value == pytest.approx(2 / 3 * (8 / 3) - 1)


def test_tau_ap_minds_the_top_more_than_tau_does() -> None:
    top, bottom = ordered("bacdefgh"), ordered("abcdefhg")
    actual = ordered("abcdefgh")

    assert kendall_tau(actual, top) == kendall_tau(actual, bottom)
    assert (tau_ap(actual, top).value or 0) < (tau_ap(actual, bottom).value or 0)


@given(paired)
def test_tau_b_and_rho_are_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = both(pairs)
    if len(set(one.values())) < 2 or len(set(other.values())) < 2:
        assert kendall_tau(one, other).value is None
        assert spearman_rho(one, other).value is None
    else:
        assert kendall_tau(one, other).value == pytest.approx(
            kendalltau(*zip(*pairs, strict=True)).statistic
        )
        assert spearman_rho(one, other).value == pytest.approx(
            spearmanr(*zip(*pairs, strict=True)).statistic
        )


@given(st.permutations(range(8)))
def test_tau_ap_is_its_formula_counted_out(order: list[int]) -> None:
    actual = {str(name): float(-name) for name in order}
    estimated = {str(name): float(-place) for place, name in enumerate(order)}
    total = 0.0
    for rank in range(1, 8):
        total += sum(order[above] < order[rank] for above in range(rank)) / rank

    assert tau_ap(actual, estimated).value == pytest.approx(2 * total / 7 - 1)


@pytest.mark.parametrize("correlation", EVERY)
def test_the_same_order_is_one_and_the_reverse_minus_one(correlation: Correlation) -> None:
    forward, back = ordered("abcde"), ordered("edcba")

    assert correlation(forward, forward).value == 1
    assert correlation(forward, back).value == -1
    assert correlation(forward, {name: 7 + 3 * of for name, of in forward.items()}).value == 1


@given(paired)
def test_two_of_them_are_symmetric(pairs: list[tuple[int, int]]) -> None:
    one, other = both(pairs)

    assert kendall_tau(one, other).value == kendall_tau(other, one).value
    assert spearman_rho(one, other).value == spearman_rho(other, one).value


def test_values_that_differ_by_rounding_are_tied() -> None:
    rounded = {"a": 0.1 + 0.2, "b": 0.3, "c": 0.5}

    assert kendall_tau(rounded, {"a": 0.0, "b": 1.0, "c": 2.0}).value == pytest.approx(2 / 6**0.5)


@pytest.mark.parametrize("correlation", EVERY)
def test_where_there_is_no_order_it_says_why(correlation: Correlation) -> None:
    assert correlation({}, {}).reason == "an order needs two, not 0"
    assert correlation({"a": 1}, {"a": 1}).reason == "an order needs two, not 1"
    assert correlation({"a": 1, "b": 1}, {"a": 1, "b": 2}).reason == "all 2 are tied in the first"
    assert correlation({"a": 1, "b": 2}, {"a": 1, "b": 1}).reason == "all 2 are tied in the second"


def test_tau_ap_knows_no_ties() -> None:
    tied = {"a": 1.0, "b": 1.0, "c": 0.0}

    assert tau_ap(ordered("abc"), tied).reason == "two are tied, and tau-ap knows no ties"


@pytest.mark.parametrize("correlation", EVERY)
def test_only_the_same_things_can_be_compared(correlation: Correlation) -> None:
    with pytest.raises(ValueError, match="'c' has a value in only one of the two"):
        correlation(ordered("abc"), ordered("ab"))
    with pytest.raises(ValueError, match="a value is a finite number, not nan"):
        correlation({"a": float("nan"), "b": 1}, ordered("ab"))
