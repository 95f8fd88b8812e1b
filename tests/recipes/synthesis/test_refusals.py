"""Questions that are refused for their words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.recipes.synthesis import (
    COPIED,
    OF_THE_PASSAGE,
    EarlierQuestions,
    copied_share,
    refusal,
)
from freshstack_dspy.records import Chunk, Query

TEXT = "# Dials\n\nThe dial shows the phase of the moon, and sticks when it rains."
SEED = Chunk(chunk_id="a", source="a", path="a", start_byte=0, end_byte=9, text=TEXT, tokens=9)
CONFIG = QueriesConfig(source="synthetic", count=1)


def query(text: str) -> Query:
    return Query(query_id="q", title=text, body="", answer="a")


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("The dial shows the phase of the moon!", 1.0),
        ("What shows the phase of the moon?", 3 / 4),
        ("Why is it that the dial shows the phase of the moon?", 5 / 9),
        ("My dial is stuck since yesterday's rain, what now?", 0.0),
        ("the dial shows", 0.0),
        ("", 0.0),
    ],
)
def test_the_copied_share_is_that_of_runs_of_four_words(question: str, share: float) -> None:
    assert copied_share(question, TEXT) == pytest.approx(share)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_share_is_a_share_and_a_text_copies_itself(question: str, text: str) -> None:
    assert 0 <= copied_share(question, text) <= 1
    assert copied_share(text, text) in (0, 1)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Why is it that the dial shows the phase of the moon?", COPIED),
        ("According to the text, what does the dial do?", OF_THE_PASSAGE),
        ("What does this passage say of dials?", OF_THE_PASSAGE),
        ("In the code snippet above, what is the dial for?", OF_THE_PASSAGE),
        ("How do I get the text of a document into the dial?", None),
        ("My dial got wet and does not move any more. What now?", None),
        ("Where do I find the passage of time on a dial?", OF_THE_PASSAGE),
        ("dial stuck", None),
    ],
)
def test_a_question_is_refused_that_copies_or_speaks_of_its_passage(
    question: str, reason: str | None
) -> None:
    assert refusal(query(question), [SEED], CONFIG) == reason


def test_any_of_several_seeds_may_be_copied() -> None:
    other = SEED.model_copy(update={"text": "Rain makes it stick, say those who sell dials."})

    assert refusal(query("Rain makes it stick, say those who?"), [SEED, other], CONFIG) == COPIED


def test_near_duplicates_are_told_by_their_terms() -> None:
    earlier = EarlierQuestions(0.7)
    earlier.keep(query("How do I reset the sticking dial?"))

    assert earlier.holds_alike(query("How do I reset sticking dials?"))
    assert not earlier.holds_alike(query("How do I paint the dial of a clock?"))


def test_questions_without_any_term_are_alike() -> None:
    earlier = EarlierQuestions(1.0)
    earlier.keep(query("???"))

    assert earlier.holds_alike(query("!!!"))
