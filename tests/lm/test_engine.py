"""Which engine answers a model's name, and what its errors become; LiteLLM's import takes seconds."""

import base64
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import dspy
import pytest
from pydantic import SecretStr

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.engine import (
    BaselineProvider,
    LiteLLMProvider,
    NativeProvider,
    check_model,
    presentable,
    provider_for,
)
from freshstack_dspy.lm.typed import TypedAdapter

from .asking import BERN, ask_cities, request
from .chat_server import ChatServer, Scripted
from .conftest import Connect

SECRET = "sk-planted-0123456789"


@pytest.mark.parametrize(
    "model", ["openai/a", "anthropic/a", "gemini/a", "hosted_vllm/a", "ollama_chat/a", "groq/a/b"]
)
def test_dspys_own_client_asks_the_providers_that_it_knows(model: str) -> None:
    config = ModelConfig(name=model, api_base="http://127.0.0.1:9/v1")
    assert isinstance(provider_for(config), NativeProvider)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["together_ai/a", "bedrock/a", "mistral/a"])
def test_litellm_asks_all_others(model: str) -> None:
    assert isinstance(provider_for(ModelConfig(name=model)), LiteLLMProvider)


def test_the_baseline_answers_this_packages_programs_only(store: ReplyStore) -> None:
    assert isinstance(provider_for(ModelConfig()), BaselineProvider)
    with pytest.raises(FatalModelError, match="answers the programs of this package only"):
        connect(ModelConfig(), store=store)("hello")


@pytest.mark.parametrize("name", ["gpt-4o", "/gpt-4o", "openai/", "extractive/other"])
def test_a_name_without_a_known_provider_is_explained(name: str) -> None:
    with pytest.raises(FatalModelError, match="takes a provider and a model"):
        check_model(ModelConfig(name=name))


def test_a_missing_key_is_found_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FatalModelError, match="set OPENAI_API_KEY in the environment"):
        check_model(ModelConfig(name="openai/gpt-4o"))
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    check_model(ModelConfig(name="openai/gpt-4o"))
    check_model(ModelConfig(name="hosted_vllm/a", api_base="http://127.0.0.1:9/v1"))
    check_model(ModelConfig())


@pytest.mark.slow
def test_a_missing_key_or_provider_of_litellm_is_found_too(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(FatalModelError, match="set MISTRAL_API_KEY in the environment"):
        check_model(ModelConfig(name="mistral/a"))
    with pytest.raises(FatalModelError, match="'made_up/a' has no known provider"):
        check_model(ModelConfig(name="made_up/a"))
    check_model(ModelConfig(name="bedrock/a"))  # a role of the machine has no key
    assert capfd.readouterr() == ("", "")


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


_LITELLM_AS_IT_WAS = """
import os, litellm
names = ("client_session", "sync_transport", "num_retries", "DEFAULT_MAX_RETRIES", "drop_params")
before = {name: getattr(litellm, name, None) for name in names}
environment = dict(os.environ)
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.engine import HostedModel, provider_for
from freshstack_dspy.lm.vectors import Access, EmbeddingClient, RerankClient
provider_for(ModelConfig(name="together_ai/a"))
base = "http://127.0.0.1:9/v1"
EmbeddingClient(HostedModel("openai/a", "[[embedder]]", base), Access(), dimensions=8)._opened()
RerankClient(HostedModel("cohere/a", "[reranker]", base), Access())._opened()
assert before == {name: getattr(litellm, name, None) for name in names}
assert {**environment, "LITELLM_LOCAL_MODEL_COST_MAP": "True"} == dict(os.environ)
"""


@pytest.mark.slow
def test_the_host_process_keeps_its_litellm_and_its_environment() -> None:
    subprocess.run([sys.executable, "-c", _LITELLM_AS_IT_WAS], check=True)


@pytest.fixture(
    params=[
        "openai",
        pytest.param("together_ai", marks=pytest.mark.slow),  # LiteLLM's own client
        pytest.param("perplexity", marks=pytest.mark.slow),  # the OpenAI SDK below LiteLLM
    ]
)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def failure(provider: str, api_base: str, timeout: float = 5.0) -> ModelError:
    """The error of one attempt."""
    name = f"{provider}/scripted"
    model = ModelConfig(name=name, api_base=api_base, api_key=SecretStr(SECRET), timeout=timeout)
    asked: Any = provider_for(model)
    with closing(asked), pytest.raises(ModelError) as caught:
        asked.complete(replace(request(), model=name))
    message = str(caught.value)

    assert SECRET not in message
    assert message.isprintable()
    assert "To fix" not in message
    return caught.value


def error_of(message: str, code: Any = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": "x", "code": code}}).encode()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Scripted(f"Incorrect API key provided: {SECRET}.", status=401), "refused the key: check "),
        (Scripted("Pay", status=402), "is not paid for"),
        (Scripted(status=404, body=error_of("No", "model_not_found")), "is not known where"),
    ],
)
def test_what_no_retry_can_help_is_asked_once(
    server: ChatServer, provider: str, reply: Scripted, expected: str
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base)

    assert isinstance(error, FatalModelError)
    assert str(error).startswith(f"{provider}/scripted {expected}")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Scripted("8192 tokens at most", status=400), "failed"),
        (Scripted("stopped by the content filter", status=400), "refused"),
    ],
)
def test_a_request_that_is_refused_is_its_own_failure(
    server: ChatServer, provider: str, reply: Scripted, status: str
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base)

    assert isinstance(error, ReplyError)
    assert "refused the request" in str(error)
    assert str(reply.content) in str(error)
    assert (error.status, len(server.requests)) == (status, 1)


@pytest.mark.parametrize(
    ("reply", "rate_limited", "maybe_billed"),
    [
        (Scripted("too many", status=429), True, False),
        (Scripted("busy", status=529), True, False),
        (Scripted("busy", status=503, headers={"Retry-After": "3"}), True, False),
        (Scripted("oops", status=503), False, False),
        (Scripted("oops", status=500), False, False),
        (Scripted(body=b"<html>proxy error</html>"), False, True),
        (Scripted(body=b'{"choices": 1}'), False, True),
        (Scripted(drop=True), False, True),
        (Scripted("late", delay=0.6), False, True),
    ],
)
def test_what_may_pass_says_whether_it_is_a_rate_limit_and_may_cost(
    server: ChatServer, provider: str, reply: Scripted, rate_limited: bool, maybe_billed: bool
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base, timeout=0.3 if reply.delay else 5)

    assert isinstance(error, TransientModelError)
    assert str(error).startswith(f"{provider}/scripted did not answer: ")
    assert (error.rate_limited, error.maybe_billed) == (rate_limited, maybe_billed)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("7", 7, 7), (formatdate(time.time() + 3600, usegmt=True), 3000, 3600)],
    ids=["seconds", "date"],
)
def test_the_wait_that_a_server_asks_for_is_read_in_both_its_forms(
    server: ChatServer, header: str, least: float, most: float
) -> None:
    server.says(Scripted("too many", status=429, headers={"Retry-After": header}))
    error = failure("openai", server.api_base)

    assert isinstance(error, TransientModelError)
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"choices": []}', b"[]", b"null", b"", b'{"choices": [{"message": "hi"}]}',
     Scripted("hi", usage={"prompt_tokens": -1, "completion_tokens": "many"}).encoded()],
)  # fmt: skip
def test_a_body_that_is_no_reply_may_pass(server: ChatServer, body: bytes) -> None:
    server.says(Scripted(body=body))

    assert isinstance(failure("openai", server.api_base), TransientModelError)


@pytest.mark.slow
class TestLiteLLM:
    """Models that only LiteLLM knows how to reach."""

    def test_it_asks_records_and_serves(self, server: ChatServer, client_for: Connect) -> None:
        server.says("prose", BERN)
        lm = client_for(name="together_ai/scripted", api_key=SECRET)
        first, again = ask_cities(lm), ask_cities(client_for("replay", name="together_ai/scripted"))

        assert first.call_id == again.call_id
        assert len(server.requests) == 2
        assert server.requests[0]["response_format"]["json_schema"]["name"] == "ListCities"
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"

    def test_a_password_in_the_address_is_sent_and_not_recorded(
        self, server: ChatServer, client_for: Connect, tmp_path: Path
    ) -> None:
        server.says(BERN)
        with_password = server.api_base.replace("http://", "http://me:planted-word@")
        ask_cities(client_for(api_base=with_password))

        basic = base64.b64encode(b"me:planted-word").decode()
        assert server.headers[0]["Authorization"] == f"Basic {basic}"
        assert ask_cities(client_for("replay")).cities[0].name == "Bern"
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path for path in files if b"planted-word" in path.read_bytes()]

    def test_what_it_did_not_see_counted_is_not_counted_as_nothing(
        self, server: ChatServer, client_for: Connect, store: ReplyStore
    ) -> None:
        """It gives zero tokens where the provider names none, and a budget would never end."""
        server.says(Scripted("there", usage=None))
        client_for(name="together_ai/scripted")("hello")

        (reply,) = store.replies()
        assert (reply.text, reply.input_tokens, reply.output_tokens) == ("there", None, None)


class Decide(dspy.Signature):
    """Decide."""

    question: str = dspy.InputField()
    yes: bool = dspy.OutputField()
    size: Literal["small", "large"] = dspy.OutputField()


@pytest.mark.parametrize(
    "text", ['{"yes": true, "size": "small"}', ' {\n"size":"large","yes":false}\n']
)
def test_what_is_recorded_is_the_text_that_the_model_wrote(
    server: ChatServer, store: ReplyStore, client_for: Connect, text: str
) -> None:
    """DSPy's client gives an object where the schema is small."""
    server.says(text)
    with dspy.context(lm=client_for(), adapter=TypedAdapter()):
        decided = dspy.Predict(Decide)(question="which?")

    assert decided.size in text
    assert [reply.text for reply in store.replies()] == [text]


KEY = "sk-planted/0123456789+ab"


@pytest.mark.parametrize(
    "echoed", [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), "\0".join(KEY)]
)
def test_a_key_is_left_out_of_a_message_however_it_is_written(echoed: str) -> None:
    model = ModelConfig(name="openai/a", api_key=SecretStr(KEY))

    assert presentable(f"bad key {echoed.rstrip('=')}", model) == "bad key [key]"


def test_secrets_of_the_environment_and_of_addresses_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-in-aws")
    model = ModelConfig(name="openai/a", api_base="http://me:planted%21word@host/v1")
    text = "planted-in-aws\n\tplanted%21word planted!word me:planted!word \x1b[0m"

    assert presentable(text, model) == "[key] [key] [key] [key] [0m"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("HOSTED_VLLM_API_KEY", "hosted_vllm/scripted"),
        ("DEEPSEEK_API_KEY", "deepseek/scripted"),
        pytest.param("TOGETHERAI_API_KEY", "together_ai/scripted", marks=pytest.mark.slow),
    ],
)
def test_the_key_of_the_environment_is_sent(
    server: ChatServer,
    client_for: Connect,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    name: str,
) -> None:
    monkeypatch.setenv(variable, SECRET)
    client_for(name=name)("hello")

    assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"


# Replies over HTTP that never end, are too long, or are compressed to fill the memory


CLIENTS = ["openai/scripted", pytest.param("together_ai/scripted", marks=pytest.mark.slow)]
"""DSPy's own client, and LiteLLM."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MIB = 2**20


class Hostile:
    """A server that sends the same bytes to everybody, and notes when a client has gone."""

    def __init__(self, head: bytes, piece: bytes, *, pause: float = 0.0, most: int = 10**9) -> None:
        self.head, self.piece, self.pause, self.most = head, piece, pause, most
        self.gone: list[float] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.api_base = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    @contextmanager
    def running(self) -> Iterator["Hostile"]:
        threading.Thread(target=self._accept, daemon=True).start()
        with self._listening:
            yield self
            self._listening.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                came, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(came,), daemon=True).start()

    def _answer(self, came: socket.socket) -> None:
        with came, suppress(OSError):
            came.recv(MIB)
            came.sendall(self.head)
            for _ in range(self.most):
                came.sendall(self.piece)
                time.sleep(self.pause)
        self.gone.append(time.monotonic())


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


ENDLESS = (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b" " * MIB))
BOMB = gzip.compress(b" " * MIB) * 1024
BOMBS = (HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(BOMB)}\r\n\r\n".encode(), BOMB)
TWICE = gzip.compress(BOMB)
TWICE_PACKED = (
    HEAD + f"Content-Encoding: gzip, gzip\r\nContent-Length: {len(TWICE)}\r\n\r\n".encode(),
    TWICE,
)

_ASK = """
import json, re, sys
from freshstack_dspy import ModelConfig, connect
from freshstack_dspy.errors import ModelError
from dspy.lm15 import Message, Request
name, store, *bases = sys.argv[1:]
ask = Request(model=name, messages=(Message.user("a"),))
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
for base in bases:
    lm = connect(ModelConfig(name=name, api_base=base, timeout=30, retries=0), store=store)
    lm.client.retries._make()  # all is imported, and its memory not measured
    before = most()
    try:
        lm(ask)
    except ModelError as error:
        print(json.dumps([str(error), (most() - before) // 1024]))
"""


@pytest.mark.parametrize("name", CLIENTS)
def test_a_body_is_read_as_far_as_any_reply_can_be(name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Hostile(*body, most=8192 if body is ENDLESS else 1).running())
            for body in (ENDLESS, TWICE_PACKED, BOMBS)
        ]
        bases = [server.api_base for server in servers]
        command = [sys.executable, "-W", "ignore", "-c", _ASK, name, str(tmp_path), *bases]
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    print(name, replies)  # noqa: T201 - for who runs it with -s

    assert len(replies) == len(servers)
    assert all("did not answer" in why and mebibytes < 300 for why, mebibytes in replies)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reply_that_a_gateway_compressed_unasked_is_read(client_for: Connect, name: str) -> None:
    message = {"role": "assistant", "content": "Bern"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = gzip.compress(json.dumps({"model": "scripted", "choices": [choice]}).encode())
    head = HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with Hostile(head, body, most=1).running() as server:
        assert client_for(name=name, api_base=server.api_base)("hello") == ["Bern"]


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((b"", b"", 60.0), id="silent"),
        pytest.param((HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.05), id="drips"),
        pytest.param((*ENDLESS, 0.2), id="endless"),
    ],
)
def test_a_request_that_is_given_up_is_closed_at_the_deadline(
    client_for: Connect, name: str, answer: tuple[bytes, bytes, float]
) -> None:
    head, piece, pause = answer
    with Hostile(head, piece, pause=min(pause, 1.0) if head else 0.5).running() as server:
        lm = client_for(name=name, api_base=server.api_base, timeout=0.5, retries=0)
        provider_for(ModelConfig(name=name))  # what it imports takes longer than this
        begun = time.monotonic()
        with pytest.raises((ReplyError, TransientModelError), match="did not answer"):
            lm("hello")
        waited = time.monotonic() - begun
        if head:  # who has sent nothing does not see that nobody listens
            while not server.gone and time.monotonic() < begun + 5:
                time.sleep(0.05)
            assert server.gone

    assert waited < 3


def test_an_error_is_told_while_another_thread_imports_the_openai_package(
    client_for: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first invalid reply has it imported; it is in `sys.modules` before it is done."""
    monkeypatch.setitem(sys.modules, "openai", type(sys)("openai"))
    with (
        Hostile(
            b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\n", b"oops", most=1
        ).running() as one,
        pytest.raises(ReplyError, match="did not answer: oops"),
    ):
        client_for(api_base=one.api_base, retries=0)("hello")
