"""How alike two texts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.text import jaccard, terms

SETS = st.frozensets(st.sampled_from("abcdefg"))


@given(SETS, SETS)
def test_it_is_a_share_and_does_not_depend_on_the_order(
    a: frozenset[str], b: frozenset[str]
) -> None:
    assert 0 <= jaccard(a, b) == jaccard(b, a) <= 1


@given(SETS.filter(bool))
def test_the_same_terms_are_wholly_alike(a: frozenset[str]) -> None:
    assert jaccard(a, a) == 1


def test_texts_without_terms_are_not_alike() -> None:
    assert jaccard(frozenset(), frozenset()) == 0


def test_it_is_what_is_shared_of_what_there_is() -> None:
    a = set(terms("indexing reads the corpus"))
    b = set(terms("the corpus was indexed twice"))

    assert jaccard(a, b) == pytest.approx(2 / 4)  # {index, corpus} of {index, read, corpus, twice}
