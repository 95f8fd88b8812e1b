"""What a model takes is what it is sent: found in LiteLLM's table, and held to by strict servers."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from freshstack_dspy import ModelConfig, ReplyStore
from freshstack_dspy.config import PricesConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.budget import upper_bound
from freshstack_dspy.lm.capabilities import capabilities_of
from freshstack_dspy.lm.prices import Price, price_of

from .asking import BERN, ask_cities
from .chat_server import ChatServer, Scripted
from .conftest import Connect
from .strict_servers import (
    anthropic_faults,
    gemini_faults,
    grammar_faults,
    object_only_faults,
    openai_faults,
    prompt_alone_faults,
    refusal,
)

Faults = Callable[[dict[str, Any]], Iterator[str]]


def openai_reply(text: str) -> Scripted:
    return Scripted(text)


def anthropic_reply(text: str) -> Scripted:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    return Scripted(body=json.dumps(body).encode())


def gemini_reply(text: str) -> Scripted:
    content = {"role": "model", "parts": [{"text": text}]}
    body = {
        "candidates": [{"content": content, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
    }
    return Scripted(body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("name", "faults", "reply"),
    [
        ("openai/gpt-5-mini", openai_faults, openai_reply),
        ("openai/o3", openai_faults, openai_reply),
        ("openai/gpt-6-luna", openai_faults, openai_reply),
        ("anthropic/claude-sonnet-5", anthropic_faults, anthropic_reply),
        ("anthropic/claude-sonnet-5-5", anthropic_faults, anthropic_reply),
        ("gemini/gemini-3.8-flash", gemini_faults, gemini_reply),
        ("azure/gpt-5-mini", openai_faults, openai_reply),
    ],
)
@pytest.mark.parametrize("effort", [None, "low"])
def test_a_strict_server_takes_the_defaults(
    name: str,
    faults: Faults,
    reply: Callable[[str], Scripted],
    effort: str | None,
    server: ChatServer,
    client_for: Connect,
) -> None:
    def answer(body: dict[str, Any]) -> Scripted:
        refused = "; ".join(faults(body))
        return refusal(refused) if refused else reply(BERN)

    server.script = answer
    lm = client_for(name=name, reasoning_effort=effort, api_key="sk-none")

    assert ask_cities(lm).cities[0].name == "Bern"


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("hosted_vllm/me", grammar_faults),
        ("hosted_vllm/Qwen/Qwen3-32B", grammar_faults),
        ("openai/my-model", grammar_faults),
        ("ollama/llama3.1", grammar_faults),
        ("deepseek/deepseek-chat", object_only_faults),
        ("groq/llama-3.3-70b-versatile", object_only_faults),
        ("openai/gpt-3.5-turbo", prompt_alone_faults),
    ],
)
def test_a_server_of_ones_own_or_a_lesser_one_takes_the_defaults(
    name: str, faults: Faults, server: ChatServer, client_for: Connect
) -> None:
    def answer(body: dict[str, Any]) -> Scripted:
        refused = "; ".join(faults(body))
        return refusal(refused) if refused else Scripted(BERN)

    server.script = answer

    assert ask_cities(client_for(name=name, api_key="sk-none")).cities[0].name == "Bern"


def test_a_server_that_may_decode_with_outlines_is_asked_for_no_longest_string() -> None:
    schema = {
        "properties": {"maxLength": {"type": "string", "maxLength": 500}},
        "maxItems": 3,
        "enum": ["maxLength"],
    }
    asked = {"type": "json_schema", "schema": schema}
    local, other = (
        capabilities_of(ModelConfig(name=name)).response_format(asked)
        for name in ("lm_studio/me", "hosted_vllm/me")
    )

    assert local == {
        **asked,
        "schema": {**schema, "properties": {"maxLength": {"type": "string"}}},
    }
    assert other == asked


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("openai/gpt-5-mini", "temperature", 0.1),
        ("anthropic/claude-sonnet-5", "top_p", 0.9),
        ("openai/gpt-5-mini", "reasoning_effort", "none"),
        ("openai/gpt-4o", "reasoning_effort", "low"),
        ("openai/gpt-4o", "max_tokens", 20_000),
    ],
)
def test_a_setting_that_the_model_does_not_take_is_an_error(
    name: str, setting: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=rf"\[model\] {setting} is .*: {name} "):
        capabilities_of(ModelConfig.model_validate({"name": name, setting: value}))


@pytest.mark.parametrize("effort", ["minimal", "max"])
def test_a_budget_for_thoughts_fits_into_what_a_model_writes_and_is_reserved(
    effort: str, server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    """Of models of Anthropic that think by a budget, DSPy's client adds it to `max_tokens`."""

    def answer(body: dict[str, Any]) -> Scripted:
        budget, most = body["thinking"]["budget_tokens"], body["max_tokens"]
        if "temperature" in body or not budget < most <= 64_000:
            return refusal("`temperature` may only be set to 1 when thinking is enabled")
        return anthropic_reply(BERN)

    server.script = answer
    name = "anthropic/claude-sonnet-4-5"
    ask_cities(client_for(name=name, reasoning_effort=effort, api_key="sk-none"))

    (reply,) = store.replies()
    reserved = upper_bound(reply.request, Price(input=0, output=1)).dollars
    assert reserved >= server.requests[0]["max_tokens"]


def test_a_model_that_thinks_has_room_for_thoughts_up_to_what_it_writes() -> None:
    def reply_tokens(name: str, **settings: Any) -> int:
        return capabilities_of(ModelConfig(name=name, **settings)).reply_tokens(1000)

    assert reply_tokens("openai/gpt-4o") == 1000
    assert reply_tokens("openai/gpt-5-mini") == 1000 + 16_384
    assert reply_tokens("openai/gpt-5-mini", reasoning_effort="high") == 1000 + 32_768
    assert reply_tokens("openai/gpt-5-chat-latest") == 16_384
    assert reply_tokens("openai/gpt-5-mini", max_tokens=500) == 500
    assert reply_tokens("hosted_vllm/Qwen/Qwen3-32B", context=8192) == 1000 + 2048
    assert reply_tokens("hosted_vllm/mine", context=1024) == 512


# What calls cost


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("openai/gpt-4o", 1000 * 2.5e-06 + 100 * 1e-05),
        ("anthropic/claude-sonnet-4-5", 1000 * 3e-06 + 100 * 1.5e-05),
        ("deepseek/deepseek-chat", 1000 * 2.8e-07 + 100 * 4.2e-07),
        ("extractive/baseline", 0.0),
    ],
)
def test_a_call_costs_what_the_table_says(model: str, cost: float) -> None:
    price = price_of(model)
    assert price is not None
    assert price.cost(1000, 100) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["openai/made-up", "made-up", "hosted_vllm/gpt-4o"])
def test_a_model_that_is_not_in_the_table_has_no_price(model: str) -> None:
    """One's own server does not cost what OpenAI asks for a model of the same name."""
    assert price_of(model) is None


def test_the_batch_price_of_the_table_is_half_the_live_one() -> None:
    price = price_of("openai/gpt-4o")
    assert price is not None
    live, batch = price.cost(1000, 100), price.batched.cost(1000, 100)
    assert live is not None
    assert batch == pytest.approx(live / 2)


def test_the_users_prices_go_before_the_tables() -> None:
    own = PricesConfig(input=1.0, output=2.0)
    assert price_of("openai/gpt-4o", own) == Price(input=1e-06, output=2e-06)
    assert price_of("hosted_vllm/mine", own) == Price(input=1e-06, output=2e-06)
