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


def test_strict_labels_raise_it_and_lenient_ones_lower_it() -> None:
    lenient = [LabelledScore(0.02, False), LabelledScore(0.1, True)] * 10

    assert threshold(lenient) < THRESHOLD < threshold(strict(10))


def test_one_label_moves_it_by_hand_computed_shrinkage() -> None:
    """At the maximum the pull of the curve and that of the prior are equal."""
    found = threshold([LabelledScore(THRESHOLD, False)])

    curve = 0.5 * SLOPE / (1 + 2.718281828459045 ** (SLOPE * (found - THRESHOLD)))
    assert (found - THRESHOLD) / SPREAD**2 == pytest.approx(curve, rel=1e-4)


@given(PAIRS)
def test_the_order_of_the_labels_does_not_matter(pairs: list[LabelledScore]) -> None:
    assert threshold(pairs) == pytest.approx(threshold(pairs[::-1]), abs=1e-6)
