"""Intervals, tests, power and rank correlation."""

import random
import re
from collections.abc import Iterable
from itertools import product
from math import fsum, isnan
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import kendalltau, nct, pearsonr, spearmanr, t

from freshstack_dspy.measures.kappa import kappa, table_of
from freshstack_dspy.measures.statistics import (
    Interval,
    adjust,
    bootstrap,
    correlation_intervals,
    correlations,
    detectable_difference,
    kendall_intervals,
    kendall_tau,
    macro_interval,
    mean_interval,
    mean_intervals,
    permutation_tests,
    spearman_rho,
)


def bootstrapped(values: Iterable[float], resamples: int) -> Interval:
    """Of single values, one for each query."""
    sums = np.array([[value, 1] for value in values])
    means = bootstrap(sums, lambda of: {"mean": of[:, 0] / of[:, 1]}, resamples=resamples)
    return means["mean"]


def test_with_one_item_a_query_it_is_the_bootstrap_of_scipy() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(50)]

    ours = bootstrapped(values, resamples=4000)
    theirs = scipy_bootstrap((values,), fmean, n_resamples=4000, method="percentile", vectorized=False,
                       rng=0).confidence_interval  # fmt: skip

    assert (theirs.low, theirs.high) == pytest.approx((ours.low, ours.high), abs=0.006)


def test_whole_queries_are_drawn() -> None:
    """Four items of a query that are all alike tell no more than one."""
    values = VALUES.values()
    four = np.array([[4 * value, 4] for value in values])
    found = bootstrap(four, lambda of: {"mean": of[:, 0] / of[:, 1]}, resamples=200)["mean"]

    assert found == bootstrapped(values, resamples=200)


def test_an_interval_is_not_made_of_what_is_left_when_much_is_undefined() -> None:
    """With two queries of one label each, half of the resamples hold one label only."""
    tables = np.stack([table_of([(1, 1)], 2), table_of([(0, 0)], 2)])
    interval = bootstrap(tables, lambda sums: {"kappa": kappa(sums)})["kappa"]

    assert (interval.value, interval.low, interval.high) == (1.0, None, None)
    assert re.search("undefined on [45][0-9]{3} of 10000 resamples", interval.reason or "")


VALUES = {f"q{number}": random.Random(number).random() for number in range(60)}
finite = st.floats(-100, 100)


@given(st.dictionaries(st.text(), finite, max_size=30))
def test_a_mean_is_a_ratio_of_sums(values: dict[str, float]) -> None:
    mean = mean_interval(values, resamples=60)

    assert (mean.low is None) == (mean.high is None) == (mean.reason is not None)
    assert mean.value == (fmean(values.values()) if values else None)
    if mean.low is not None:
        ratio = bootstrapped([values[query] for query in sorted(values)], resamples=60)
        assert (mean.low, mean.high) == pytest.approx((ratio.low, ratio.high), rel=1e-9, abs=1e-9)


def test_means_over_other_queries_are_drawn_for_themselves() -> None:
    columns = {"all": VALUES, "fewer": {query: VALUES[query] for query in sorted(VALUES)[1:]}}

    assert mean_intervals(columns) == {name: mean_interval(of) for name, of in columns.items()}


@pytest.mark.parametrize(
    "sizes",
    [[2] * 25, [1] * 20 + [10] * 3, [1] * 49 + [2], [50] * 5],
    ids=["25 of 2", "20 of 1, 3 of 10", "49 of 1, 1 of 2", "5 of 50"],
)
def test_it_holds_the_true_average_as_often_as_it_says(sizes: list[int]) -> None:
    """Drawing within topics held that of the first three in .82, .17 and .06 of all samples."""
    chance = random.Random("coverage")
    topics = {
        f"{topic} {number}": [str(topic)] for topic, of in enumerate(sizes) for number in range(of)
    }
    held = 0
    for _ in range(150):
        values = {query: chance.gauss(0.5, 0.2) for query in topics}
        interval = macro_interval(values, topics, resamples=300)
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 0.5 <= interval.high

    assert held / 150 > 0.88


lattice = st.integers(-8, 8).map(lambda eighths: eighths / 8)
"""Sums of eighths are exact, so the tests need no tolerance of their own."""


def by_enumeration(differences: list[float]) -> float:
    observed = abs(fsum(differences))
    every = [
        abs(fsum(sign * of for sign, of in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed for one in every) / len(every)


def test_fishers_example_of_darwins_maize() -> None:
    """The Design of Experiments, section 21: 1,726 of 32,768 ways are as far from 0 as 314."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    (found,) = permutation_tests([list(map(float, eighths))])

    assert sum(eighths) == 314
    assert found.p_value == 1726 / 32768


@given(st.lists(lattice, min_size=2, max_size=9))
def test_it_is_the_share_of_all_signs(differences: list[float]) -> None:
    assert permutation_tests([differences])[0].p_value == by_enumeration(differences)


def test_where_the_runs_are_alike_it_finds_a_difference_in_one_of_twenty() -> None:
    """200 comparisons without a difference: the 10 false findings expected have deviation 3.1."""
    rng = random.Random(8)
    found = 0
    for _ in range(200):
        column = [rng.gauss(0, 1) for _ in range(30)]
        (of,) = permutation_tests([column], permutations=1000)
        found += of.p_value is not None and of.p_value <= 0.05

    assert 1 <= found <= 22


def test_by_hand_correction() -> None:
    """Holm of .005 .01 .03 .04: 4 × .005, 3 × .01, 2 × .03, then .04 raised to .06."""
    assert adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("queries", [10, 50, 672])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 200])
def test_a_t_test_finds_it_four_times_in_five(queries: int, alpha: float) -> None:
    difference = detectable_difference(0.3, queries, alpha=alpha)
    noncentrality = difference / 0.3 * queries**0.5
    exact = nct.sf(t.ppf(1 - alpha / 2, queries - 1), queries - 1, noncentrality)

    assert exact == pytest.approx(0.8, abs=1e-6)


paired = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25)


@given(paired)
def test_tau_b_and_rho_are_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = zip(*pairs, strict=True)
    first, second = ({str(place): float(of) for place, of in enumerate(of)} for of in (one, other))
    tau, rho = kendall_tau(first, second).value, spearman_rho(first, second).value

    if min(len(set(one)), len(set(other))) < 2:
        assert (tau, rho) == (None, None)
    else:
        assert tau == pytest.approx(kendalltau(one, other).statistic)
        assert rho == pytest.approx(spearmanr(one, other).statistic)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1))
def test_an_item_that_counts_twice_is_there_twice(items: list[tuple[int, int, int]]) -> None:
    x, y, times = np.array(items).T
    ours = [values[0] for values in correlations(x / 3, y / 3, times[None].astype(float)).values()]

    x, y = np.repeat(x, times), np.repeat(y, times)
    if min(len(set(x)), len(set(y))) < 2:
        assert np.isnan(ours).all()
    else:
        theirs = [scipys(x, y).statistic for scipys in (pearsonr, spearmanr, kendalltau)]
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_several_pairs_of_raters_are_averaged_by_their_items() -> None:
    """The first two agree on three items, the others contradict each other on two."""
    alike = {("q", str(place)): float(place) for place in range(3)}
    one, other = ({("r", "a"): values[0], ("r", "b"): values[1]} for values in ((0, 1), (1, 0)))
    found = correlation_intervals([(alike, alike), (one, other)])

    assert {name: each.value for name, each in found.items()} == {
        "Pearson's r": pytest.approx(0.2),
        "Spearman's rho": pytest.approx(0.2),
        "Kendall's tau-b": pytest.approx(0.2),
    }
    assert found["Pearson's r"].groups == 2


@given(
    values=st.lists(
        st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=2),
        min_size=4,
        max_size=6,
    )
)
@settings(max_examples=20)
def test_the_interval_of_a_tau_is_one_of_resampled_means(values: list[list[list[int]]]) -> None:
    """Some rows of two tables with three queries; each resample's tau is that of scipy."""
    tables = {
        name: {
            f"row {place}": dict(zip("abc", map(float, row[which]), strict=True))
            for place, row in enumerate(values)
        }
        for which, name in enumerate(("x", "y"))
    }
    (interval,) = kendall_intervals(tables, [("x", "y")]).values()
    means = [[fmean(row.values()) for row in table.values()] for table in tables.values()]
    expected = kendalltau(*means).statistic

    if isnan(expected):
        assert interval.value is None
        return
    assert interval.value == pytest.approx(expected)
    taus = []
    for drawn in product("abc", repeat=3):
        of_draw = [
            [fmean(row[query] for query in drawn) for row in table.values()]
            for table in tables.values()
        ]
        taus.append(kendalltau(*of_draw).statistic)
    if interval.low is not None and interval.high is not None:
        assert np.nanmin(taus) - 1e-9 <= interval.low <= interval.high <= np.nanmax(taus) + 1e-9


def test_values_that_differ_by_rounding_are_tied() -> None:
    rounded = {"a": 0.1 + 0.2, "b": 0.3, "c": 0.5}

    assert kendall_tau(rounded, {"a": 0.0, "b": 1.0, "c": 2.0}).value == pytest.approx(2 / 6**0.5)
