"""Which engine answers a model's name; LiteLLM's part is slow, for its import takes seconds."""

import base64
from pathlib import Path
from typing import Any

import pytest
from dspy.clients.engines import LiteLLMEngine, LM15Engine

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.engine import BaselineProvider, NetworkProvider, presentable, provider_for
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.asking import BERN, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect

SECRET = "sk-planted-0123456789"


def engine_of(model: str, **settings: Any) -> Any:
    provider = provider_for(ModelConfig(name=model, **settings))
    assert isinstance(provider, NetworkProvider)
    return provider._engine


@pytest.mark.parametrize(
    "model", ["openai/a", "anthropic/a", "gemini/a", "hosted_vllm/a", "ollama_chat/a", "groq/a/b"]
)
def test_dspys_own_client_asks_the_providers_that_it_knows(model: str) -> None:
    assert isinstance(engine_of(model, api_base="http://127.0.0.1:9/v1"), LM15Engine)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["together_ai/a", "bedrock/a", "mistral/a"])
def test_litellm_asks_all_others(model: str) -> None:
    assert isinstance(engine_of(model), LiteLLMEngine)


@pytest.mark.slow
def test_an_address_with_a_password_goes_through_litellm() -> None:
    engine = engine_of("openai/a", api_base="http://me:pass@127.0.0.1:9/v1")

    assert isinstance(engine, LiteLLMEngine)


def test_the_baseline_needs_no_engine() -> None:
    assert isinstance(provider_for(ModelConfig()), BaselineProvider)


def test_the_baseline_says_that_it_answers_this_packages_programs_only(store: ReplyStore) -> None:
    with pytest.raises(FatalModelError, match="answers the programs of this package only"):
        connect(ModelConfig(), store=store)("hello")


@pytest.mark.parametrize(
    ("api_key", "authorization"), [(None, "Bearer none"), (SECRET, f"Bearer {SECRET}")]
)
def test_a_local_server_needs_no_key(
    server: ChatServer, client_for: Connect, api_key: str | None, authorization: str
) -> None:
    server.says(BERN)
    ask_cities(client_for(name="hosted_vllm/scripted", api_key=api_key))

    assert server.headers[0]["Authorization"] == authorization
    assert server.requests[0]["model"] == "scripted"


def test_what_a_provider_says_is_put_on_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "planted-in-env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-in-aws")
    model = ModelConfig(
        name="openai/a", api_key="planted-in-config", api_base="http://me:planted%21word@host/v1"
    )
    said = (
        "planted-in-env\n\tplanted-in-aws planted-in-config me:planted%21word planted!word \x1b[0m"
    )

    assert presentable(said, model) == "[key] [key] [key] [key] [key] [0m"
    assert len(presentable("x" * 9999, model)) == 400


@pytest.mark.slow
class TestLiteLLM:
    """Models that only LiteLLM knows how to reach."""

    def test_it_asks_records_and_serves(self, server: ChatServer, client_for: Connect) -> None:
        server.says("prose", BERN)
        lm = client_for(name="together_ai/scripted", api_key=SECRET)
        first, again = ask_cities(lm), ask_cities(client_for("replay", name="together_ai/scripted"))

        assert first.call_id == again.call_id
        assert len(server.requests) == 2
        assert server.requests[0]["model"] == "scripted"
        assert server.requests[0]["response_format"]["json_schema"]["name"] == "ListCities"
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"

    def test_one_attempt_is_one_request(
        self, server: ChatServer, client_for: Connect, waits: list[float]
    ) -> None:
        """The SDK below it retries by itself unless told not to."""
        busy = Scripted("busy", status=503)
        slow_down = Scripted("slow down", status=429, headers={"Retry-After": "7"})
        server.says(busy, slow_down, Scripted(drop=True), BERN)
        ask_cities(client_for(name="together_ai/scripted", api_key=SECRET))

        assert (len(server.requests), len(waits), waits[1]) == (4, 3, 7.0)

    def test_a_timeout_is_the_configurations(
        self, server: ChatServer, client_for: Connect, waits: list[float]
    ) -> None:
        server.says(BERN, Scripted(BERN, delay=6), BERN)
        ask_cities(client_for(name="together_ai/scripted", api_key=SECRET))  # imports its client
        ask_cities(client_for(name="together_ai/other", api_key=SECRET, timeout=2))

        assert (len(server.requests), len(waits)) == (3, 1)

    @pytest.mark.parametrize("status", [401, 404])
    def test_what_no_retry_can_help_stops_at_once_without_the_key(
        self,
        server: ChatServer,
        client_for: Connect,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        status: int,
    ) -> None:
        server.says(Scripted(f"no, {SECRET}", status=status))
        with pytest.raises(FatalModelError) as caught:
            ask_cities(client_for(name="together_ai/scripted", api_key=SECRET))

        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(server.requests) == 1
        assert capfd.readouterr() == ("", "")
        assert not [
            path
            for path in tmp_path.rglob("*")
            if path.is_file() and SECRET.encode() in path.read_bytes()
        ]

    def test_a_refused_request_is_a_failure(self, server: ChatServer, client_for: Connect) -> None:
        server.says(Scripted("too long", status=400))
        with pytest.raises(ReplyError, match="refused the request") as caught:
            ask_cities(client_for(name="together_ai/scripted", api_key=SECRET))

        assert (caught.value.status, len(server.requests)) == ("failed", 1)

    @pytest.mark.parametrize(
        ("reply", "status"),
        [
            (Scripted(BERN, finish_reason="length"), "truncated"),
            (Scripted(None, refusal="no"), "refused"),
            (Scripted(BERN, finish_reason="content_filter"), "refused"),
        ],
    )
    def test_truncated_and_refused_replies_are_seen(
        self, server: ChatServer, client_for: Connect, reply: Scripted, status: str
    ) -> None:
        server.says(reply)
        with pytest.raises(ReplyError) as caught:
            ask_cities(client_for(name="together_ai/scripted", api_key=SECRET))

        assert caught.value.status == status

    def test_a_password_in_the_address_is_sent_and_not_kept(
        self, server: ChatServer, store: ReplyStore, client_for: Connect, tmp_path: Path
    ) -> None:
        server.says(BERN)
        with_password = server.api_base.replace("http://", "http://me:planted-word@")
        ask_cities(client_for(api_base=with_password))

        assert server.headers[0]["Authorization"] == "Basic " + (
            base64.b64encode(b"me:planted-word").decode()
        )
        assert ask_cities(client_for("replay")).cities[0].name == "Bern"
        assert not [
            path
            for path in tmp_path.rglob("*")
            if path.is_file() and b"planted-word" in path.read_bytes()
        ]

    def test_the_environments_endpoint_is_the_one_that_is_asked(
        self, server: ChatServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.says(BERN)
        monkeypatch.setenv("TOGETHER_AI_API_BASE", server.api_base)
        model = ModelConfig(name="together_ai/scripted", api_key=SECRET)
        ask_cities(connect(model, store=store))

        assert len(server.requests) == 1
        assert [reply.request.endpoint for reply in store.replies()] == [server.api_base]

    def test_a_provider_that_nobody_knows_is_explained(
        self, store: ReplyStore, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(FatalModelError, match="knows its provider, 'made_up'") as caught:
            ask_cities(connect(ModelConfig(name="made_up/model"), store=store))

        assert "\n" not in str(caught.value)
        assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_what_litellm_did_not_see_counted_is_not_counted_as_nothing(
    server: ChatServer, client_for: Connect, store: ReplyStore
) -> None:
    """It gives zero tokens where the provider names none, and a budget would never end."""
    server.says(Scripted("there", usage=None))
    client_for(name="together_ai/scripted")("hello")

    (reply,) = store.replies()
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("there", None, None)
