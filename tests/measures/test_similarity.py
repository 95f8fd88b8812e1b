"""Similarities of answers by their words, against SQuAD's rules and a plain dynamic programme."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.measures.similarity import SIMILARITIES, rouge_l, token_f1


def test_token_f1_is_squads() -> None:
    assert token_f1("Peter Hansen", "He was played by Peter Hansen.") == pytest.approx(2 * 2 / 8)
    assert token_f1("no no yes", "no yes yes") == pytest.approx(2 * 2 / 6)
    assert token_f1("the", "a") == 1
    assert token_f1("the", "Paris") == 0


def test_rouge_l_is_of_the_longest_common_subsequence() -> None:
    # Lin 2004, section 3.1: both have two words in common, the first in order
    reference = "police killed the gunman"
    assert rouge_l("police kill the gunman", reference) == pytest.approx(2 * 2 / 6)
    assert rouge_l("the gunman kill police", reference) == pytest.approx(2 * 1 / 6)


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    row = [0] * (len(second) + 1)
    for one in first:
        before = row[:]
        for place, other in enumerate(second, 1):
            row[place] = (
                before[place - 1] + 1 if one == other else max(before[place], row[place - 1])
            )
    return row[-1]


WORDS = st.lists(st.sampled_from("bcdef"), max_size=12)


@given(WORDS, WORDS)
@settings(max_examples=60)
def test_rouge_l_is_that_of_a_plain_programme(first: list[str], second: list[str]) -> None:
    shared, total = longest_common(first, second), len(first) + len(second)
    expected = 2 * shared / total if first and second else float(first == second)
    assert rouge_l(" ".join(first), " ".join(second)) == pytest.approx(expected)


@given(WORDS, WORDS)
@settings(max_examples=30)
def test_similarities_are_symmetric_and_1_of_the_same(first: list[str], second: list[str]) -> None:
    one, other = " ".join(first), " ".join(second)
    for similarity in SIMILARITIES.values():
        assert similarity(one, one) == 1
        assert similarity(one, other) == similarity(other, one)
