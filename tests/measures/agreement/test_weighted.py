"""Graded labels of two raters: by hand, by property, and against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from freshstack_dspy.measures.agreement import Weights, binarised_kappa, cohen_kappa, weighted_kappa
from freshstack_dspy.measures.statistics import Estimate
from tests.measures.strategies import untimed

# Judge down, person across:  0 1 2
#                          0  2 1 0
#                          1  0 1 1
#                          2  1 0 2
EIGHT = [(0, 0)] * 2 + [(0, 1), (1, 1), (1, 2), (2, 0)] + [(2, 2)] * 2
KINDS: tuple[Weights, ...] = ("linear", "quadratic")
pair_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


def test_eight_pairs_by_hand() -> None:
    """Judge 3, 2, 3 of 0, 1, 2; person 3, 2, 3.

    Linear: found 1 + 1 + 2 = 4; by chance (2·3·2 + 2·2·3 + 2·3·3·2) / 8 = 60/8.
    Quadratic: found 1 + 1 + 4 = 6; by chance (2·3·2 + 2·2·3 + 4·3·3·2) / 8 = 96/8.
    """
    assert weighted_kappa(EIGHT, "linear").value == pytest.approx(1 - 4 * 8 / 60)
    assert weighted_kappa(EIGHT, "quadratic").value == pytest.approx(1 - 6 * 8 / 96)


def test_a_grade_that_nobody_gave_still_lies_between_two_others() -> None:
    """scikit-learn takes 0 and 3 for neighbours of 1 there, unless told the labels."""
    pairs = [(0, 0), (3, 3), (0, 1), (3, 0)]

    assert weighted_kappa(pairs, "linear").value == pytest.approx(
        cohen_kappa_score(*zip(*pairs, strict=True), weights="linear", labels=range(4))
    )
    assert weighted_kappa(pairs, "linear").value != pytest.approx(
        cohen_kappa_score(*zip(*pairs, strict=True), weights="linear")
    )


def test_binarised_as_by_umbrela() -> None:
    """Above 1 of the grades 0 to 3: judge 1, 1, 0, 0 and person 1, 0, 0, 1."""
    pairs = [(3, 2), (2, 1), (1, 0), (0, 3)]

    assert binarised_kappa(pairs, threshold=2).value == 0
    assert cohen_kappa(pairs).value == pytest.approx((0 - 4 / 16) / (1 - 4 / 16))


def test_what_is_undefined_says_why() -> None:
    no_pairs = Estimate(reason="there are no pairs of labels")
    one_label = Estimate(reason="both raters gave the label 2 to every item")

    for weights in KINDS:
        assert weighted_kappa([], weights) == no_pairs
        assert weighted_kappa([(2, 2)] * 3, weights) == one_label
        assert weighted_kappa([(2, 1)] * 3, weights).value == 0
    assert binarised_kappa([], 2) == no_pairs
    assert binarised_kappa([(3, 2), (2, 3)], 2).reason == (
        "both raters gave the label 1 to every item"
    )


def test_weights_of_another_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'linear' or 'quadratic', not 'cubic'"):
        weighted_kappa(EIGHT, "cubic")  # type: ignore[arg-type]


@untimed
@given(pair_lists, st.sampled_from(KINDS))
def test_weighted_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]], weights: Weights) -> None:
    judge, person = zip(*pairs, strict=True)
    kappa = weighted_kappa(pairs, weights)

    if kappa.value is None:
        assert {judge[0]} == set(judge) == set(person)
    else:
        theirs = cohen_kappa_score(judge, person, weights=weights, labels=range(4))
        assert theirs == pytest.approx(kappa.value, abs=1e-12)


@untimed
@given(pair_lists, st.sampled_from(KINDS))
def test_weighted_kappa_is_symmetric_and_at_most_one(
    pairs: list[tuple[int, int]], weights: Weights
) -> None:
    kappa = weighted_kappa(pairs, weights)

    assert kappa == weighted_kappa([(person, judge) for judge, person in pairs], weights)
    assert kappa == weighted_kappa(
        [(judge + 7, person + 7) for judge, person in pairs], weights
    ) or (kappa.value is None)
    assert kappa.value is None or -1 <= kappa.value <= 1


@untimed
@given(pair_lists, st.integers(1, 3), st.sampled_from(KINDS))
def test_with_two_labels_every_kappa_is_the_same(
    pairs: list[tuple[int, int]], threshold: int, weights: Weights
) -> None:
    two = [(int(judge >= threshold), int(person >= threshold)) for judge, person in pairs]

    assert cohen_kappa(two) == weighted_kappa(two, weights) == binarised_kappa(pairs, threshold)
