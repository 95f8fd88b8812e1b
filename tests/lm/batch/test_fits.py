"""Replies that are typed by hand: do they fit what was asked?"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from freshstack_dspy.lm.batch.deferred import fault_in
from freshstack_dspy.lm.request import ChatRequest
from freshstack_dspy.lm.typed import answer_model, answer_schema
from tests.lm.asking import BERN, PROSE, ListCities
from tests.lm.recording import ask

SCHEMA = {"type": "json_schema", "name": "ListCities", "schema": answer_schema(ListCities)}


def asking(response_format: Any) -> ChatRequest:
    return ask(parameters={"response_format": response_format})


@pytest.mark.parametrize(
    "text",
    [BERN, f"  {BERN}\n", f"```json\n{BERN}\n```", f"Here it is:\n```\n{BERN}\n```\nGlad to help."],
)
def test_a_text_that_fits_has_no_fault(text: str) -> None:
    assert fault_in(asking(SCHEMA), text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROSE, "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"cities": []}', "cities: [] should be non-empty"),
        ('{"cities": [{"name": "Bern", "people": 1.0}]}', "1.0 is not of type 'integer'"),
        ('{"cities": [{"name": "Bern", "people": -1}]}', "-1 is less than the minimum of 0"),
        (BERN[:-1] + ', "note": "x"}', "('note' was unexpected)"),
    ],
)
def test_a_text_that_does_not_fit_has_one_line_that_says_why(text: str, words: str) -> None:
    fault = fault_in(asking(SCHEMA), text)

    assert fault is not None
    assert words in fault


CITY = st.fixed_dictionaries(
    {"name": st.text(max_size=3), "people": st.integers(-1, 2) | st.floats() | st.none()},
    optional={"more": st.integers()},
)


@given(st.fixed_dictionaries({"cities": st.lists(CITY, max_size=3) | st.text()}))
def test_what_fits_is_what_the_model_takes(value: Any) -> None:
    """The inputs aside, which a validator may look at, the two never disagree."""
    text = json.dumps(value)
    try:
        answer_model(ListCities).model_validate_json(text, strict=True)
        valid = True
    except ValidationError:
        valid = False

    assert (fault_in(asking(SCHEMA), text) is None) == valid
