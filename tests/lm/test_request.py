"""The key of a request."""

import json
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.reply import entry_json
from freshstack_dspy.lm.request import (
    KEY_VERSION,
    ChatMessage,
    ChatRequest,
    canonical_json,
    chat_request,
    endpoint_identity,
    json_string,
    sha256_of,
)
from freshstack_dspy.lm.typed import messages_of, plain

from .asking import request
from .recording import reply_to

KNOWN = ChatRequest(
    model="openai/gpt-4o",
    endpoint="https://api.example.org/v1",
    messages=(
        ChatMessage(role="system", content="Judge."),
        ChatMessage(role="user", content='{"question": "Wie groß?"}'),
    ),
    parameters={
        "temperature": 0.1,
        "max_tokens": 4096,
        "response_format": {"type": "json_schema", "name": "Judge", "schema": {"type": "object"}},
    },
    sample=2,
)


def test_the_key_of_a_known_request_never_changes_by_accident() -> None:
    """All recorded replies are lost with it: a change here raises KEY_VERSION and is announced."""
    assert KNOWN.key == "07bc065b6454cca902e39d288bd58f2e09b6cb960d4fd75512fc8551e6c63640"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
messages = st.lists(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["system", "user", "assistant"]),
        content=st.text(max_size=5),
    ),
    max_size=3,
).map(tuple)
asks = st.builds(
    ChatRequest,
    model=st.text(max_size=4),
    endpoint=st.text(max_size=4),
    messages=messages,
    parameters=st.dictionaries(st.text(max_size=3), json_values, max_size=3),
    sample=st.none() | st.integers(0, 3),
)


@given(asks, asks)
def test_two_requests_share_a_key_only_if_all_their_fields_are_the_same(
    one: ChatRequest, other: ChatRequest
) -> None:
    same = json.dumps(one.model_dump(), sort_keys=True) == json.dumps(
        other.model_dump(), sort_keys=True
    )

    assert same == (one.key == other.key)


@given(asks, st.floats(allow_nan=False, allow_infinity=False))
def test_the_key_is_the_hash_of_the_canonical_json_of_every_field(
    ask: ChatRequest, number: float
) -> None:
    ask = ask.model_copy(update={"parameters": {**ask.parameters, "number": number}})
    fields = ask.model_dump(mode="json")

    assert ask.canonical() == canonical_json(fields)
    assert ask.key == sha256_of({**fields, "key_version": KEY_VERSION})
    assert entry_json(reply_to(ask, ask.model)) == canonical_json(
        reply_to(ask, ask.model).model_dump(mode="json", by_alias=True)
    )


def test_texts_are_canonical_whatever_their_characters() -> None:
    characters = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))

    assert json_string(characters) == canonical_json(characters)


@given(st.lists(st.floats() | json_values, max_size=3))
def test_inputs_are_shown_as_python_would_indent_them(values: list[Any]) -> None:
    """Their keys depend on it to the byte."""
    inputs = {"question": values}
    shown = messages_of(dspy.Signature("question -> answer"), [], inputs)[-1]["content"]

    assert shown == json.dumps(plain(inputs), ensure_ascii=False, indent=1)


def test_every_parameter_that_dspy_can_send_reaches_the_key() -> None:
    """A parameter that a later DSPy adds must not change replies behind the key's back."""
    values: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 5,
        "stop": ("end",),
        "response_format": {"type": "json_object"},
        "seed": 5,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "service_tier": "flex",
        "user_id": "me",
        "store": False,
        "logprobs": 0,
        "extensions": {"min_p": 0.5},
    }
    keys = {
        chat_request(request(**{name: value}), endpoint="e", sample=None).key
        for name, value in [*values.items(), ("seed", None)]
    }

    assert len(values) + 1 == len(keys)


@pytest.mark.parametrize(
    ("api_base", "identity"),
    [
        (None, "openai:default"),
        ("http://LocalHost:8000/v1/", "http://localhost:8000/v1"),
        ("https://me:secret@host/v1", "https://host/v1"),
        ("https://host:443", "https://host"),
        ("http://host:443", "http://host:443"),
        ("http://[::1]:80/v1", "http://[::1]/v1"),
    ],
)
def test_an_endpoint_is_known_by_its_normal_address(api_base: str | None, identity: str) -> None:
    assert identity == endpoint_identity("openai/x", api_base)
    assert endpoint_identity("extractive/baseline", api_base) == "embedded:6"


@pytest.mark.parametrize(
    "api_base",
    [
        "me:secret@host/v1",
        "ftp://me:secret@host",
        "http://me:secret@host:port",
        "http://[me:secret@host",
        "http://host/v1?key=secret",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_shown(api_base: str) -> None:
    with pytest.raises(FatalModelError, match="api_base must be") as caught:
        endpoint_identity("openai/x", api_base)

    assert "secret" not in str(caught.value)


def test_only_text_can_be_asked() -> None:
    picture = Message(role="user", parts=(dspy.lm15.ImagePart(url="https://host/a.png"),))

    with pytest.raises(FatalModelError, match="image part cannot be sent"):
        chat_request(Request(model="x/y", messages=(picture,)), endpoint="e", sample=None)
