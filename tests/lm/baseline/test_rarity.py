"""The prior of terms: what is common in English says little, and names say much."""

import pytest

from freshstack_dspy.lm.baseline.phrases import (
    expected_share,
    information,
    is_common,
    total_information,
)
from freshstack_dspy.text import terms


def weight(word: str) -> float:
    return information(expected_share(terms(word)[0]))


def test_an_unlisted_word_of_middle_length_weighs_one() -> None:
    assert weight("turbine") == pytest.approx(1)


def test_rarer_kinds_of_terms_weigh_more() -> None:
    weights = [weight(word) for word in ("would", "find", "result", "turbine", "electrolysis")]
    assert weights == sorted(weights)

    assert information(expected_share("os.path")) > weight("electrolysis")


def test_inflections_of_a_listed_word_are_listed() -> None:
    assert weight("finding") == weight("find")


def test_common_words_name_nothing() -> None:
    assert [is_common(terms(word)[0]) for word in ("would", "find", "effect", "turbine")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_repetitions_are_counted() -> None:
    assert total_information(["turbin", "turbin"]) == pytest.approx(2)
