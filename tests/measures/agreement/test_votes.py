"""Self-agreement, by hand and by property."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.agreement import vote_agreement


@pytest.mark.parametrize(
    ("votes", "share"),
    [
        ([[1, 1, 1]], 1),
        ([[1, 1, 0]], 1 / 3),
        ([[0, 1, 2]], 0),
        ([[1, 1, 0, 0, 0]], 4 / 10),
        ([[1, 1], [1, 0]], 1 / 2),
        ([[1, 1, 1], [1, 0], [1], []], 1 / 2),
    ],
)
def test_the_share_of_agreeing_pairs_by_hand(votes: list[list[int]], share: float) -> None:
    assert vote_agreement(votes).value == pytest.approx(share)


def test_without_a_second_vote_it_is_undefined() -> None:
    assert vote_agreement([[1], []]).reason == "nothing was judged twice"


@given(st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=7), min_size=1, max_size=9))
def test_it_is_what_counting_all_pairs_of_votes_gives(votes: list[list[int]]) -> None:
    shares = []
    for labels in votes:
        pairs = list(combinations(labels, 2))
        shares.append(sum(one == other for one, other in pairs) / len(pairs))

    assert vote_agreement(votes).value == pytest.approx(sum(shares) / len(shares))
