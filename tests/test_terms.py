"""The terms of prose and code."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.text import STOP_WORDS, terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("the of and", []),
        ("Indexing the indexes", ["index", "index"]),
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("get_user_name", ["get", "user", "name", "get_user_name"]),
        ("user.getName", ["user", "get", "name", "user.getname"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("parseHTTPRequest2", ["pars", "http", "request", "2", "parsehttprequest2"]),
        ("X", ["x"]),
        ("utf8", ["utf", "8", "utf8"]),
        ("3.11", ["3", "11", "3.11"]),
        ("a.b", ["b", "a.b"]),
        ("__init__", ["init"]),
        ("end.", ["end"]),
        ("e.g. this", ["e", "g", "e.g"]),
        ("naïve Straße", ["naïv", "straße"]),
        ("索引", ["索引"]),
        ("基因组", ["基因", "因组"]),
        ("序", ["序"]),
        ("FASTAを読む", ["fasta", "を読", "読む", "fastaを読む"]),
        ("---", []),
        ("x==y", ["x", "y"]),
        ("IS_NOT", ["is_not"]),
    ],
)
def test_terms_by_hand(text: str, found: list[str]) -> None:
    assert terms(text) == found


@settings(deadline=None)
@given(st.text(max_size=200))
def test_terms_are_lower_case_and_hold_no_white_space(text: str) -> None:
    for term in terms(text):
        assert term
        assert term.split() == [term]
        assert term == term.lower() or len(term.lower()) != len(term)


@settings(deadline=None)
@given(st.text(alphabet="abcXYZ_. 01\n", max_size=80))
def test_terms_are_the_same_again(text: str) -> None:
    """A remembered compound gives what a fresh one gave."""
    assert terms(text) == terms(text)


@settings(deadline=None)
@given(st.lists(st.text(alphabet="abcABC", min_size=1, max_size=6), max_size=6))
def test_the_terms_of_a_text_are_those_of_its_words_in_order(words: list[str]) -> None:
    assert terms(" ".join(words)) == [term for word in words for term in terms(word)]


def test_long_compounds_are_not_remembered_and_cut_alike() -> None:
    """The memory is bounded in entries, so an entry must be bounded too."""
    long = "VeryLong" * 20

    assert terms(long) == [*["veri", "long"] * 20, long.lower()]


def test_stop_words_are_lower_case_words() -> None:
    assert len(STOP_WORDS) == 33
    assert all(word.isalpha() and word.islower() for word in STOP_WORDS)
