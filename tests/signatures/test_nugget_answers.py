"""Which nuggets and ratings are accepted, and what the model is told of the others."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from freshstack_dspy.lm.reask import correction
from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS, answer_model, validating_against
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer
from freshstack_dspy.signatures.rate_importance import RateImportance

from .test_answers import faults as faults_of

SIGNATURE: Any = NuggetizeAnswer
ANSWER = "Nothing is broken. **`width`** holds whole µm,\nnot 1/100 mm."
QUESTION = "How do I read a ring width of a series? I use `read_rwl` of version 2."


def nugget(text: str, quote: str = "") -> dict[str, str]:
    return {"quote": quote, "text": text}


def accepted(made: Any, **context: Any) -> None:
    with validating_against({"question": QUESTION, "answer": ANSWER, "limit": 10, **context}):
        answer_model(SIGNATURE).model_validate_json(json.dumps(made), strict=True)


def faults(made: Any, **context: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        accepted(made, **context)
    return correction(caught.value)


def nuggets(*made: Any) -> Any:
    return {"nuggets": list(made)}


def rating(number: Any, importance: Any = "vital") -> dict[str, Any]:
    return {"nugget": number, "importance": importance}


@pytest.mark.parametrize(
    "quote", ["", " ", "`width`** holds whole µm,", "width holds whole µm, not 1/100 mm."]
)
def test_a_quote_that_stands_in_the_answer_or_is_empty_is_accepted(quote: str) -> None:
    accepted(nuggets(nugget("One.", quote)))


def test_a_quote_that_is_not_there_is_sent_back_by_its_words() -> None:
    made = nuggets(
        nugget("One.", "whole µm"), nugget("Two.", "width is\nin µm"), nugget("3", "x" * 999)
    )
    said = faults(made)

    assert 'the quote "width is\\nin µm" does not stand in the answer; copy its words' in said
    assert "whole µm" not in said
    assert f'the quote "{"x" * 120}…" does not' in said


def test_only_quotes_may_be_wrong_where_no_better_reply_comes() -> None:
    lenient: dict[str, Any] = {ACCEPT_LESSER_FAULTS: True}
    accepted(nuggets(nugget("One.", "no such")), **lenient)
    for made in (
        nuggets(nugget("One."), nugget("one.")),
        nuggets(nugget("Read a ring width of a series."), nugget("One.", "no such")),
        nuggets({"text": "One."}),
    ):
        faults(made, **lenient)


def test_a_nugget_that_restates_the_question_is_sent_back_by_its_words() -> None:
    made = nuggets(nugget("`width` holds µm."), nugget("Read a ring width of a series."))
    said = faults(made)

    assert 'the nugget "Read a ring width of a series." only restates the question' in said
    assert "holds" not in said


@pytest.mark.parametrize(
    ("ratings", "said"),
    [
        ([], "at least 1 item"),
        ([rating(1)], "no rating for nugget [2]"),
        ([rating(1), rating(2), rating(1, "okay")], "more than one rating for nugget [1]"),
        ([rating(1), rating(2), rating(3)], "there is no nugget [3]"),
        ([rating(0), rating(2)], "there is no nugget [0]; no rating for nugget [1]"),
        ([rating(1), rating(2, "important")], "'vital' or 'okay'"),
        ([rating(1), rating(2, None)], "'vital' or 'okay'"),
        ([rating(1), rating("2")], "valid integer"),
        ([rating(1), rating(True)], "valid integer"),
        ([rating(1), rating(2) | {"reason": "x"}], "Extra inputs"),
    ],
)
def test_a_rating_of_other_than_each_nugget_once_is_sent_back(ratings: Any, said: str) -> None:
    assert said in faults_of(RateImportance, {"ratings": ratings})
