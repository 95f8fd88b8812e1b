"""Similarities of answers by their words, against SQuAD's rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.answering.comparing import SIMILARITIES, token_f1


def test_token_f1_is_squads() -> None:
    assert token_f1("Peter Hansen", "He was played by Peter Hansen.") == pytest.approx(2 * 2 / 8)
    assert token_f1("no no yes", "no yes yes") == pytest.approx(2 * 2 / 6)
    assert token_f1("the", "a") == 1
    assert token_f1("the", "Paris") == 0


WORDS = st.lists(st.sampled_from("bcdef"), max_size=12)


@given(WORDS, WORDS)
@settings(max_examples=30)
def test_similarities_are_symmetric_and_1_of_the_same(first: list[str], second: list[str]) -> None:
    one, other = " ".join(first), " ".join(second)
    for similarity in SIMILARITIES.values():
        assert similarity(one, one) == 1
        assert similarity(one, other) == similarity(other, one)
