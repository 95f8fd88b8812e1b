"""Why a replay found no reply."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.nearest import explain_miss
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, ChatMessage

from .recording import ask


def recorded(**fields: Any) -> Reply:
    asked = ask(**fields)
    return Reply(
        key=asked.key,
        ask=asked,
        text="",
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def named(task: str, **parameters: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "name": task}, **parameters}


def nearest(asked: Ask, *replies: Reply) -> str:
    """Beginning of the key of the request that is named as the nearest."""
    return explain_miss(asked, replies).partition("nearest recorded request, ")[2][:12]


def test_the_same_question_is_nearer_than_a_similar_text() -> None:
    asked = ask("one and two", parameters=named("Judge"))
    same_task = recorded(text="xxx", parameters=named("Judge"))
    same_text = recorded(text="one and three", parameters=named("Nuggetize"))

    assert nearest(asked, same_text, same_task) == same_task.key[:12]


def test_of_one_question_the_most_alike_text_is_nearest() -> None:
    begins, ends = recorded(text="one and three"), recorded(text="no, one and two")

    assert nearest(ask("one and two"), recorded(text="none"), begins, ends) == ends.key[:12]


def test_of_one_text_the_most_alike_settings_are_nearest() -> None:
    one_off = recorded(parameters={"temperature": 0.5, "max_tokens": 8})
    two_off = recorded(parameters={"temperature": 0.1, "max_tokens": 8})

    assert nearest(ask(), two_off, one_off) == one_off.key[:12]
    assert nearest(ask(), one_off, two_off) == one_off.key[:12]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "openai/gpt-4"}, "model ('openai/gpt-4' recorded, 'openai/gpt-4o' asked)"),
        ({"endpoint": "http://a"}, "endpoint ('http://a' recorded, 'openai:default' asked)"),
        ({"sample": 3}, "sample (3 recorded, None asked)"),
        ({"parameters": {"temperature": 0.5}}, "max_tokens (None recorded, 9 asked)"),
        ({"text": "help"}, "message 1 (user) from character 3 on ('p' recorded, 'lo' asked)"),
        (
            {"messages": (ChatMessage(role="user", content="hello"),) * 3},
            "the messages (3 recorded, 1 asked)",
        ),
    ],
)
def test_every_field_that_differs_is_named(change: dict[str, Any], said: str) -> None:
    assert explain_miss(ask(), [recorded(**change)]).endswith(
        f"differs in {said}. Record it with --mode live"
    )


def test_long_texts_are_shown_from_where_they_part() -> None:
    said = explain_miss(ask("a" * 500 + "b" * 500), [recorded(text="a" * 500 + "c" * 500)])

    assert "from character 500 on ('ccc" in said
    assert len(said) < 500


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_place_named_is_the_first_that_differs(one: str, other: str) -> None:
    if one == other:
        return
    place = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )

    assert f"from character {place} on (" in explain_miss(ask(one), [recorded(text=other)])
