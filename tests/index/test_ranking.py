import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.index.ranking import best_rows
from freshstack_dspy.records import ranked


@given(st.lists(st.integers(-3, 6), min_size=1, max_size=40), st.integers(1, 50))
def test_rows_come_in_the_order_of_all_rankings(scores: list[int], depth: int) -> None:
    """The oracle is `records.ranked` over ids whose order is that of the rows."""
    by_id = {f"{row:03}": score / 4 for row, score in enumerate(scores) if score > 0}

    found = best_rows(np.array(scores) / 4, depth)

    assert [(f"{row:03}", score) for row, score in found] == ranked(by_id, depth)


def test_noise_below_the_sixth_decimal_does_not_order_rows() -> None:
    found = best_rows(np.array([0.5, 0.5 + 3e-8, 0.5 - 3e-8]), 2)

    assert [row for row, _ in found] == [0, 1]


def test_rows_of_no_score_are_not_found() -> None:
    assert best_rows(np.array([0.0, -1.0, 1e-9]), 10) == []
