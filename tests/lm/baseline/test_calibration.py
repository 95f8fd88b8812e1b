"""The threshold moves with the demonstrated labels, and only as far as they suffice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.support import SLOPE, SPREAD, THRESHOLD, LabelledScore, threshold

PAIRS = st.lists(
    st.builds(LabelledScore, st.floats(0, 1, exclude_max=True), st.booleans()), max_size=30
)


def strict(count: int) -> list[LabelledScore]:
    """Labels of people who accept only what scores above .5."""
    return [LabelledScore(0.4, False), LabelledScore(0.6, True)] * count


def test_without_labels_it_is_the_default() -> None:
    assert threshold([]) == THRESHOLD


def test_strict_labels_raise_it_and_lenient_ones_lower_it() -> None:
    lenient = [LabelledScore(0.02, False), LabelledScore(0.1, True)] * 10

    assert threshold(lenient) < THRESHOLD < threshold(strict(10))


def test_more_labels_move_it_further() -> None:
    assert THRESHOLD < threshold(strict(1)) < threshold(strict(5)) < threshold(strict(50))


def test_one_label_moves_it_by_hand_computed_shrinkage() -> None:
    """At the maximum the pull of the curve and that of the prior are equal."""
    found = threshold([LabelledScore(THRESHOLD, False)])

    curve = 0.5 * SLOPE / (1 + 2.718281828459045 ** (SLOPE * (found - THRESHOLD)))
    assert (found - THRESHOLD) / SPREAD**2 == pytest.approx(curve, rel=1e-4)


def test_both_labels_weigh_the_same_however_many_there_are() -> None:
    """Nine times as many negatives say no more about where the boundary is."""
    centre = [LabelledScore(THRESHOLD - 0.1, False)] * 9 + [LabelledScore(THRESHOLD + 0.1, True)]

    assert threshold(centre) == pytest.approx(THRESHOLD, abs=1e-6)


@given(PAIRS)
def test_it_stays_within_reach_whatever_the_labels(pairs: list[LabelledScore]) -> None:
    assert abs(threshold(pairs) - THRESHOLD) <= 4 * SPREAD + 1e-9


@given(PAIRS)
def test_the_order_of_the_labels_does_not_matter(pairs: list[LabelledScore]) -> None:
    assert threshold(pairs) == pytest.approx(threshold(pairs[::-1]), abs=1e-6)
