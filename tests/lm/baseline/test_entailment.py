"""Lexical entailment: what raises a score and what lowers it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.support import DENIAL, DOUBT, THRESHOLD, support

WIND = "The turbine converts wind into electricity."


def score(nugget: str, chunk: str, question: str = "") -> float:
    return support(question, [nugget], [chunk])[0].scores[0]


def test_a_text_supports_its_own_sentences() -> None:
    chunk = f"Energy is scarce. {WIND} Nothing else is known."

    assert score(WIND, chunk) >= THRESHOLD


def test_a_text_about_something_else_does_not_support() -> None:
    assert score(WIND, "The parser reads a configuration file from the disk.") == 0


def test_the_score_of_a_full_match_is_computed_by_hand() -> None:
    """Two unlisted words of three units: each expected in 1 %, found in 1 of 3 units."""
    chunk = (
        "gadget widget. alpha bravo charly delta echo foxtrot golfo hotel. "
        "india juliet kilo limas mike oscar papa romeo."
    )
    units = 2  # the first sentence is too short for a unit of its own
    weight = math.log((1 + 30 * 0.01) / (units + 30)) / math.log(0.01)
    size = 2 * weight

    assert score("gadget widget", chunk) == pytest.approx(size / (size + DOUBT))


def test_a_wrong_number_lowers_the_score() -> None:
    nugget = "The House passed the act by 357 votes"

    assert score(nugget, "The House passed the act by 66 votes") < score(nugget, nugget)


def test_the_parts_of_an_identifier_are_found_but_less_than_itself() -> None:
    nugget = "Call `load_json_file` first"
    whole = score(nugget, "Call load_json_file first")
    parts = score(nugget, "Call load first, then parse the json of the file")

    assert 0 < parts < whole


def test_close_words_count_more_than_scattered_ones() -> None:
    filler = " ".join(f"filler{n} stuff{n} padding{n} extra{n} words{n}." for n in range(12))
    together = f"{filler} The turbine converts wind."
    scattered = f"The turbine stands. {filler} It converts. {filler} The wind blows."

    assert score(WIND, together) > score(WIND, scattered)


def test_words_of_the_question_count_less() -> None:
    nugget = "the turbine needs grease"
    chunk = "the turbine is tall"

    assert score(nugget, chunk, question="why does my turbine stop?") < score(nugget, chunk)


def test_words_of_every_nugget_tell_nugget_from_nugget_less() -> None:
    alone = support("", ["turbine grease"], ["turbine"])[0].scores[0]
    among = support("", ["turbine grease", "turbine paint", "turbine rotor"], ["turbine"])[
        0
    ].scores[0]

    assert among < alone


def test_a_denying_nugget_loses_where_the_text_denies_nothing() -> None:
    chunk = "The turbine is painted green."

    affirmed = score("The turbine is painted green", chunk)

    assert score("The turbine is not painted green", chunk) == pytest.approx(
        affirmed * (1 - DENIAL)
    )
    assert score("The turbine is not painted green", "The turbine isn't painted green.") == (
        pytest.approx(affirmed)
    )


@given(st.lists(st.text(max_size=80), max_size=4), st.lists(st.text(max_size=300), max_size=4))
def test_scores_are_within_bounds_and_the_same_again(nuggets: list[str], chunks: list[str]) -> None:
    found = support("what is it?", nuggets, chunks)

    assert all(0 <= value < 1 for one in found for value in one.scores)
    assert [len(one.scores) for one in found] == [len(nuggets)] * len(chunks)
    assert found == support("what is it?", nuggets, chunks)


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_chunk_is_scored_the_same_in_any_company(chunk: str, other: str) -> None:
    """Batches of any size give the same labels."""
    nuggets = [WIND, "a second fact"]

    assert support("", nuggets, [other, chunk])[1] == support("", nuggets, [chunk])[0]
