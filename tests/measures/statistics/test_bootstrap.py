import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from freshstack_dspy.measures.agreement import cohen_kappa
from freshstack_dspy.measures.statistics import bootstrap_interval

ALL_ALIKE = "all resamples give the same figure: they cannot tell how sure it is"
GROUPS = {"a": [1.0, 2.0], "b": [3.0], "c": [5.0, 8.0, 13.0]}


def test_the_same_arguments_give_the_same_interval() -> None:
    rng = random.Random(0)
    groups = {str(number): [rng.random(), rng.random()] for number in range(20)}
    first = bootstrap_interval(groups, fmean, seed=7)

    assert first == bootstrap_interval(dict(reversed(groups.items())), fmean, seed=7)
    assert first != bootstrap_interval(groups, fmean, seed=8)


def test_an_interval_holds_what_it_was_made_of() -> None:
    interval = bootstrap_interval(GROUPS, fmean, level=0.9, resamples=200)

    assert fmean([1, 2, 3, 5, 8, 13]) == interval.value
    assert interval.low is not None
    assert interval.high is not None
    assert 1.5 <= interval.low <= interval.value <= interval.high <= 26 / 3
    assert (
        interval.level, interval.groups, interval.resamples, interval.undefined, interval.reason,
    ) == (0.9, 3, 200, 0, None)  # fmt: skip


def test_the_ends_are_percentiles_of_the_resamples_by_hand() -> None:
    """Two groups: a quarter of the resamples is (0, 0), a half mixed, a quarter (1, 1)."""
    wide = bootstrap_interval({"a": [0.0], "b": [1.0]}, fmean, level=0.6, resamples=4000)
    narrow = bootstrap_interval({"a": [0.0], "b": [1.0]}, fmean, level=0.4, resamples=4000)

    assert (wide.low, wide.high) == (0.0, 1.0)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_whole_groups_are_drawn_with_all_their_items() -> None:
    seen: list[list[str]] = []

    def remember(items: Sequence[str]) -> float:
        seen.append(list(items))
        return float(len(items))

    bootstrap_interval({"a": ["a1", "a2"], "b": ["b1"]}, remember, resamples=50)

    allowed = {"a1 a2 a1 a2", "a1 a2 b1", "b1 a1 a2", "b1 b1"}
    assert allowed == {" ".join(items) for items in seen}


def test_a_cluster_bootstrap_is_wider_than_one_of_single_items_where_items_go_together() -> None:
    items = {f"q{number}": [float(number % 2)] * 10 for number in range(20)}
    single = {f"{query} {n}": [value] for query, of in items.items() for n, value in enumerate(of)}

    clustered = bootstrap_interval(items, fmean)
    independent = bootstrap_interval(single, fmean)

    assert clustered.low is not None
    assert independent.low is not None
    assert clustered.low < independent.low


def test_with_one_item_a_group_it_is_the_bootstrap_of_scipy() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(50)]

    ours = bootstrap_interval({str(n): [value] for n, value in enumerate(values)}, fmean,
                              resamples=4000)  # fmt: skip
    theirs = bootstrap((values,), fmean, n_resamples=4000, method="percentile", vectorized=False,
                       rng=0).confidence_interval  # fmt: skip

    assert (theirs.low, theirs.high) == pytest.approx((ours.low, ours.high), abs=0.006)


def kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    return cohen_kappa(pairs).value


def test_without_two_groups_there_is_no_interval() -> None:
    one = bootstrap_interval({"a": [1.0, 2.0], "empty": []}, fmean)
    none = bootstrap_interval({}, fmean)

    assert (one.value, one.low, one.high, one.resamples) == (1.5, None, None, 0)
    assert one.reason == "an interval over queries needs two with items, not 1"
    assert (none.value, none.low) == (None, None)
    assert none.reason == "an interval over queries needs two with items, not 0"


def test_an_undefined_figure_has_no_interval() -> None:
    interval = bootstrap_interval({"a": [(1, 1)], "b": [(1, 1)]}, kappa)

    assert (interval.value, interval.low, interval.high) == (None, None, None)
    assert interval.reason == "the figure is undefined on all items"


def test_an_interval_is_not_made_of_what_is_left_when_much_is_undefined() -> None:
    """With two queries of one label each, half of the resamples hold one label only."""
    interval = bootstrap_interval({"a": [(1, 1)], "b": [(0, 0)]}, kappa)

    assert (interval.value, interval.low, interval.high) == (1.0, None, None)
    assert 400 < interval.undefined < 600
    assert f"undefined on {interval.undefined} of 1000 resamples" in (interval.reason or "")


def test_a_few_undefined_resamples_are_counted_and_left_out() -> None:
    """Six queries with one of another label each way: about 1 resample in 50 holds one label."""
    groups = {str(number): [(number % 2, number % 2)] for number in range(7)}
    groups["0"] = [(1, 0)]

    interval = bootstrap_interval(groups, kappa, level=0.9)

    assert 0 < interval.undefined < 50
    assert interval.low is not None
    assert interval.reason is None


def test_of_a_figure_that_does_not_vary_it_can_not_be_told_how_sure_it_is() -> None:
    """As of a judge that agrees with people on all 50 of 50 queries."""
    interval = bootstrap_interval({f"q{n}": [1.0, 1.0] for n in range(50)}, fmean)

    assert (interval.value, interval.low, interval.high) == (1.0, None, None)
    assert (interval.resamples, interval.reason) == (1000, ALL_ALIKE)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5])
def test_a_level_is_between_zero_and_one(level: float) -> None:
    with pytest.raises(ValueError, match="level is between 0 and 1"):
        bootstrap_interval(GROUPS, fmean, level=level)


def test_there_is_at_least_one_resample() -> None:
    with pytest.raises(ValueError, match="resamples is at least 1, not 0"):
        bootstrap_interval(GROUPS, fmean, resamples=0)


@given(
    st.dictionaries(
        st.text(), st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=2, max_size=6
    )
)
@settings(max_examples=30, deadline=None)
def test_the_interval_of_a_mean_lies_among_the_values(groups: dict[str, list[float]]) -> None:
    interval = bootstrap_interval(groups, fmean, resamples=50)
    values = [value for of in groups.values() for value in of]

    if interval.low is None or interval.high is None:
        assert interval.reason == ALL_ALIKE
        return
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
