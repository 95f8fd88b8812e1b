"""What a model is told of an invalid reply: our words, whatever Pydantic's are."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from freshstack_dspy.lm.reask import correction, faults_of


def _even(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int


def faults(annotation: Any, text: str, **constraints: Any) -> list[str]:
    model: type[BaseModel] = create_model(
        "Answer",
        __config__=ConfigDict(extra="forbid"),
        value=(annotation, Field(**constraints)),
    )
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(text, strict=True)
    return faults_of(caught.value)


NOT_JSON = (
    "it is not one JSON object: the reply must begin with { and end with its }, with no text "
    "around it and nothing cut off"
)


@pytest.mark.parametrize("text", ["", '{"value": 1', '{"value": 1} Bye'])
def test_what_is_not_json_is_told_what_json_is(text: str) -> None:
    assert faults(int, text) == [NOT_JSON]


@pytest.mark.parametrize(
    ("annotation", "value", "constraints", "said"),
    [
        (int, '"1"', {}, 'value is "1"; allowed: an integer'),
        (int, "[1, 2]", {}, "value is a list of 2; allowed: an integer"),
        (float, '"x"', {}, 'value is "x"; allowed: a number'),
        (bool, "1", {}, "value is 1; allowed: true or false"),
        (str, "1", {}, "value is 1; allowed: a text"),
        (list[int], "1", {}, "value is 1; allowed: a list"),
        (Item, "1", {}, "value is 1; allowed: an object"),
        (Literal["ok", "no"], '"yes"', {}, "value is \"yes\"; allowed: 'ok' or 'no'"),
        (int, "1", {"ge": 2}, "value is 1; allowed: 2 or more"),
        (int, "1", {"gt": 1}, "value is 1; allowed: more than 1"),
        (int, "1", {"le": 0}, "value is 1; allowed: 0 or less"),
        (int, "1", {"lt": 1}, "value is 1; allowed: less than 1"),
        (str, '""', {"min_length": 1}, 'value is ""; allowed: at least 1 character'),
        (str, '"b"', {"pattern": "^a"}, 'value is "b"; allowed: a text that matches ^a'),
        (list[int], "[]", {"min_length": 1}, "value is a list of 0; allowed: at least 1 item"),
        (list[int], "[1, 2]", {"max_length": 1}, "value is a list of 2; allowed: at most 1 item"),
        (Annotated[int, AfterValidator(_even)], "3", {}, "value: 3 is odd"),
        (list[Item], '[{"number": 1}, {}]', {}, "value[1].number is missing"),
        (Item, '{"number": 1, "x": 2}', {}, "value.x is not a field of the schema"),
        (int, '"' + "y" * 99 + '"', {}, 'value is "' + "y" * 59 + "…; allowed: an integer"),
        (Item, '{"number": 1, "a\\nb": 2}', {}, 'value."a\\nb" is not a field of the schema'),
    ],
)
def test_a_fault_says_where_it_is_what_is_there_and_what_is_allowed(
    annotation: Any, value: str, constraints: dict[str, Any], said: str
) -> None:
    assert faults(annotation, f'{{"value": {value}}}', **constraints) == [said]


def test_the_message_lists_every_fault_and_ends_somewhere() -> None:
    class Many(BaseModel):
        values: list[int]

    def told(count: int) -> list[str]:
        with pytest.raises(ValidationError) as caught:
            Many.model_validate_json(
                '{"values": [' + ", ".join(['"x"'] * count) + "]}", strict=True
            )
        opening, *listed = correction(caught.value).split("\n")
        assert opening.startswith("Your reply is not a valid answer.")
        return listed

    assert told(2) == [
        '- values[0] is "x"; allowed: an integer',
        '- values[1] is "x"; allowed: an integer',
    ]
    assert len(told(20)) == 20
    assert told(25)[20:] == ["- and 5 more faults"]
