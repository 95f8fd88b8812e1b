import random
from itertools import product
from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from freshstack_dspy.measures.statistics import MOST_ENUMERATED, permutation_test

lattice = st.integers(-8, 8).map(lambda eighths: eighths / 8)
"""Sums of eighths are exact, so the tests need no tolerance of their own."""


def by_enumeration(differences: list[float]) -> float:
    observed = abs(fsum(differences))
    every = [
        abs(fsum(sign * of for sign, of in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed for one in every) / len(every)


def test_by_hand() -> None:
    """Of the eight signs of 1, 2, 3 only all plus and all minus give a sum of 6 or more."""
    found = permutation_test([1.0, 2.0, 3.0])

    assert (found.p_value, found.statistic) == (0.25, 2.0)
    assert (found.by, found.permutations, found.standard_error) == ("enumeration", 4, 0)
    assert found.smallest == 0.25


def test_fishers_example_of_darwins_maize() -> None:
    """The Design of Experiments, section 21: 1,726 of 32,768 ways are as far from 0 as 314."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    found = permutation_test(list(map(float, eighths)))

    assert sum(eighths) == 314
    assert found.p_value == 1726 / 32768


@given(st.lists(lattice, min_size=2, max_size=9))
@settings(max_examples=60)
def test_it_is_the_share_of_all_signs(differences: list[float]) -> None:
    assert permutation_test(differences).p_value == by_enumeration(differences)


@given(st.lists(lattice, min_size=2, max_size=40), st.integers(0, 3))
@settings(max_examples=60)
def test_swapping_the_runs_changes_the_sign_only(differences: list[float], seed: int) -> None:
    one = permutation_test(differences, permutations=500, seed=seed)
    other = permutation_test([-of for of in differences], permutations=500, seed=seed)

    assert one.p_value is not None
    assert 0 < (one.smallest or 0) <= one.p_value <= 1
    assert other == one.model_copy(update={"statistic": -(one.statistic or 0.0)})


@given(st.lists(lattice, min_size=2, max_size=40), st.sampled_from([1e-9, 0.1, 3.0, 1e200]))
@settings(max_examples=60)
def test_the_unit_of_the_values_does_not_matter(differences: list[float], unit: float) -> None:
    one = permutation_test(differences, permutations=500)
    other = permutation_test([of * unit for of in differences], permutations=500)

    assert one.p_value == other.p_value


@given(st.lists(lattice, min_size=2, max_size=30))
@settings(max_examples=30)
def test_queries_without_a_difference_do_not_matter(differences: list[float]) -> None:
    one = permutation_test(differences, permutations=200)
    other = permutation_test([0.0, *differences, 0.0], permutations=200)

    assert one.p_value == other.p_value


def test_sums_that_differ_by_rounding_are_as_far() -> None:
    """0.1 + 0.2 and 0.3: without a tolerance, which of them is larger would be chance."""
    assert permutation_test([0.3, 0.1, 0.2]).p_value == 0.25
    assert permutation_test([0.3, -0.1, -0.2]).p_value == 1.0


@pytest.mark.parametrize("number", [3, 8])
def test_it_is_scipys_exact_test(number: int) -> None:
    rng = random.Random(number)
    differences = [rng.gauss(0.3, 1) for _ in range(number)]
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )

    assert permutation_test(differences).p_value == pytest.approx(theirs.pvalue)


def test_a_sample_is_as_far_from_the_truth_as_it_says() -> None:
    rng = random.Random(5)
    differences = [rng.gauss(0.4, 1) for _ in range(MOST_ENUMERATED)]
    exact = permutation_test(differences)
    one_more = [*differences, 1e-9]  # too many to enumerate, and no different
    sampled = permutation_test(one_more, permutations=50_000, seed=1)

    assert (exact.by, sampled.by) == ("enumeration", "sampling")
    assert exact.p_value is not None
    assert sampled.p_value is not None
    assert sampled.standard_error is not None
    assert sampled.standard_error == pytest.approx(
        (exact.p_value * (1 - exact.p_value) / 50_000) ** 0.5, rel=0.2
    )
    assert abs(exact.p_value - sampled.p_value) < 4 * sampled.standard_error


def test_a_sampled_p_value_is_never_zero() -> None:
    found = permutation_test([1.0] * 64, permutations=999)

    assert (found.p_value, found.smallest, found.permutations) == (0.001, 0.001, 999)


def test_the_seed_decides() -> None:
    rng = random.Random(5)
    differences = [rng.gauss(0.1, 1) for _ in range(50)]
    first = permutation_test(differences, permutations=2000, seed=1)

    assert first == permutation_test(differences, permutations=2000, seed=1)
    assert first != permutation_test(differences, permutations=2000, seed=2)


def test_signs_are_drawn_evenly_whatever_number_of_queries_fills_a_byte() -> None:
    """One difference outweighs all others, so p is 1; were its sign fixed, it would not be."""
    for number in range(21, 30):
        found = permutation_test([100.0] + [1.0] * number, permutations=4000)
        assert found.p_value is not None
        assert found.p_value < 0.001
        even = permutation_test([1.0, -1.0] * number, permutations=4000)
        assert even.p_value == 1.0


def test_without_differences_p_is_one() -> None:
    found = permutation_test([0.0] * 5)

    assert (found.p_value, found.statistic, found.permutations) == (1.0, 0.0, 1)


@pytest.mark.parametrize("differences", [[], [0.5]])
def test_below_two_queries_there_is_no_test(differences: list[float]) -> None:
    found = permutation_test(differences)

    assert found.p_value is None
    assert found.reason == f"a paired test needs two queries, not {len(differences)}"


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="permutations is at least 1, not 0"):
        permutation_test([1.0, 2.0], permutations=0)
    with pytest.raises(ValueError, match="a value is a finite number, not nan"):
        permutation_test([1.0, float("nan")])


def test_where_the_runs_are_alike_it_finds_a_difference_in_one_of_twenty() -> None:
    """200 comparisons without a difference: the 10 false findings expected have deviation 3.1."""
    rng = random.Random(8)
    found = 0
    for _ in range(200):
        p = permutation_test([rng.gauss(0, 1) for _ in range(30)], permutations=1000).p_value
        found += p is not None and p <= 0.05

    assert 1 <= found <= 22
