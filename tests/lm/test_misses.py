"""Why a replay found no reply."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from freshstack_dspy.lm.recorder import explain_miss
from freshstack_dspy.lm.request import ChatRequest
from tests.lm.recording import EMBEDDING, SEARCH, Listed, ask, every_entry, reply_to


def named(task: str, **parameters: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "name": task}, **parameters}


def explained(asked: ChatRequest, *recorded: ChatRequest) -> str:
    return explain_miss(asked, Listed(map(reply_to, recorded)))


def test_the_same_question_is_nearer_than_a_similar_text() -> None:
    same_task = ask("xxx", parameters=named("Judge"))
    same_text = ask("one and three", parameters={**named("Other"), "extra": {"name": "Judge"}})
    asked = ask("one and two", parameters=named("Judge"))

    assert f"request, {same_task.key[:12]}" in explained(asked, same_text, same_task)


def test_differing_settings_are_named_with_both_values() -> None:
    message = explained(ask(model="openai/other", sample=2), ask())

    assert "differs in model ('openai/gpt-4o' recorded, 'openai/other' asked)" in message
    assert "sample (None recorded, 2 asked)" in message
    assert message.startswith("no recorded reply for request ")


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_place_named_is_the_first_that_differs(one: str, other: str) -> None:
    assume(one != other)
    assume(not any("\ud800" <= letter <= "\udfff" for letter in one + other))
    pairs = enumerate(zip(one, other, strict=False))
    place = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))

    assert f"from character {place} on (" in explained(ask(one), ask(other))


def test_a_missing_vector_or_search_names_what_differs_of_its_kind() -> None:
    store = Listed(every_entry())
    vector = explain_miss(EMBEDDING.model_copy(update={"model": "n"}), store)
    search = explain_miss(SEARCH.model_copy(update={"settings": {"depth": 9}}), store)
    text = explain_miss(EMBEDDING.model_copy(update={"text": "0" * 64}), store)

    assert "differs in model ('m' recorded, 'n' asked)" in vector
    assert "differs in settings ({'depth': 5} recorded, {'depth': 9} asked)" in search
    assert "differs in the texts" in text
