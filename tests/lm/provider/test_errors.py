"""What the errors of providers become, through DSPy's own client and through LiteLLM alike."""

import json
import time
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from pydantic import SecretStr

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.engine import HttpReply, explained, provider_for, watched
from tests.lm.asking import request
from tests.lm.chat_server import ChatServer, Scripted

from .raw_server import silent, speaking, trickling

SECRET = "sk-planted-0123456789"
UNKNOWN = "is not known where it was asked for: check [model] name and api_base"
PAGE = (
    b"<html><head><title>x</title></head><body><h1>502 Bad Gateway</h1><p>nginx</p></body></html>"
)


@pytest.fixture(
    params=[
        "openai",
        pytest.param("together_ai", marks=pytest.mark.slow),  # LiteLLM's own client
        pytest.param("perplexity", marks=pytest.mark.slow),  # the OpenAI SDK below LiteLLM
    ]
)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def failure(provider: str, api_base: str, timeout: float = 5.0, key: str = SECRET) -> ModelError:
    """The error of one attempt."""
    name = f"{provider}/scripted"
    model = ModelConfig(name=name, api_base=api_base, api_key=SecretStr(key), timeout=timeout)
    asked: Any = provider_for(model)
    with closing(asked), pytest.raises(ModelError) as caught:
        asked.complete(replace(request(), model=name))
    said = str(caught.value)

    assert SECRET not in said
    assert said.isprintable()
    assert not any(word in said for word in ("litellm", "lm15", "Router", "Exception", "To fix"))
    return caught.value


def error_of(message: str, code: Any = None, kind: str = "an_error") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


@pytest.mark.parametrize("page", [b"<" * 2**20, b"<head " * 2**18, b"<a " * 2**19])
def test_no_page_takes_longer_than_its_length(page: bytes) -> None:
    """A server answers with markup that is never closed, and the build would be busy for hours."""
    model = ModelConfig(name="openai/scripted")
    with watched(5.0) as wire:
        wire.reply = HttpReply(502, "Bad Gateway", [], page)
        error = explained(ValueError(), wire, model)

    assert isinstance(error, TransientModelError)
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            Scripted(status=401, body=error_of(f"Incorrect API key provided: {SECRET}.")),
            "refused the key: check {key} (Incorrect API key provided: [key]., HTTP 401)",
        ),
        (
            Scripted(status=400, body=error_of("API key not valid. Please pass a valid API key.")),
            "refused the key: check {key} (API key not valid. Please pass a valid API key., HTTP 400)",
        ),
        (Scripted("No", status=403), "refused the key: check {key} (No, HTTP 403)"),
        (Scripted("Pay", status=402), "is not paid for (Pay, HTTP 402)"),
        (
            Scripted(status=429, body=error_of("You exceeded your quota", "insufficient_quota")),
            "is not paid for (You exceeded your quota, HTTP 429)",
        ),
        (
            Scripted(status=404, body=error_of("No such model", "model_not_found")),
            f"{UNKNOWN} (No such model, HTTP 404)",
        ),
        (
            Scripted(status=405, body=b""),
            f"{UNKNOWN} (HTTP 405)",
        ),
        (
            Scripted(status=301, body=b"", headers={"Location": "http://127.0.0.1:9/v1"}),
            "is asked for at another address: check [model] api_base (HTTP 301)",
        ),
    ],
)
def test_what_no_retry_can_help_is_asked_once_and_said_in_one_line(
    server: ChatServer, provider: str, reply: Scripted, said: str
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base)

    assert isinstance(error, FatalModelError)
    assert str(error) == f"{provider}/scripted {said.format(key=f'{provider.upper()}_API_KEY')}"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "said", "status"),
    [
        (
            Scripted(status=400, body=error_of("8192 tokens at most")),
            "8192 tokens at most",
            "failed",
        ),
        (Scripted(status=413, body=b"too large"), "too large", "failed"),
        (Scripted(status=422, body=b'{"detail": [{"msg": "bad value"}]}'), "bad value", "failed"),
        (Scripted(status=400, body=error_of("No", "content_filter")), "No", "refused"),
    ],
)
def test_a_request_that_is_refused_is_the_requests_own_failure(
    server: ChatServer, provider: str, reply: Scripted, said: str, status: str
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base)

    assert isinstance(error, ReplyError)
    assert f"refused the request: {said}, HTTP {reply.status}" in str(error)
    assert (error.status, len(server.requests)) == (status, 1)


@pytest.mark.parametrize(
    ("reply", "said", "rate_limited", "maybe_billed"),
    [
        (Scripted("too many", status=429), "too many, HTTP 429", True, False),
        (Scripted("busy", status=529), "busy, HTTP 529", True, False),
        (
            Scripted("busy", status=503, headers={"Retry-After": "3"}),
            "busy, HTTP 503",
            True,
            False,
        ),
        (Scripted("oops", status=503), "oops, HTTP 503", False, False),
        (Scripted("oops", status=500), "oops, HTTP 500", False, False),
        (Scripted(status=500, body=b""), "HTTP 500", False, False),
        (Scripted(status=502, body=PAGE), "502 Bad Gateway nginx, HTTP 502", False, False),
        (Scripted("late", status=408), "late, HTTP 408", False, False),
        (Scripted(body=error_of("upstream", 429)), "upstream, HTTP 429", True, False),
        (Scripted(body=PAGE), "its reply cannot be read: 502 Bad Gateway nginx", False, True),
        (Scripted(body=b""), "its reply cannot be read: it is empty", False, True),
        (Scripted(body=b'{"choices": 1}'), 'its reply cannot be read: {"choices": 1}', False, True),
        (Scripted(body=b"[" * 9999), "its reply cannot be read: [[[", False, True),
        (Scripted(drop=True), "broke before there was a whole reply", False, True),
    ],
)
def test_what_may_pass_says_whether_it_is_a_rate_limit_and_may_cost(
    server: ChatServer,
    provider: str,
    reply: Scripted,
    said: str,
    rate_limited: bool,
    maybe_billed: bool,
) -> None:
    server.says(reply)
    error = failure(provider, server.api_base)

    assert isinstance(error, TransientModelError)
    assert str(error).startswith(f"{provider}/scripted did not answer: ")
    assert said in str(error)
    assert (error.rate_limited, error.maybe_billed) == (rate_limited, maybe_billed)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": formatdate(time.time() + 3600, usegmt=True)}, 3000, 3600),
        ({"Retry-After": formatdate(0, usegmt=True)}, 0, 0),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5, 2),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read_in_both_its_forms(
    server: ChatServer, provider: str, headers: dict[str, str], least: float, most: float
) -> None:
    server.says(Scripted("too many", status=429, headers=headers))
    error = failure(provider, server.api_base)

    assert isinstance(error, TransientModelError)
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


@pytest.mark.parametrize("speech", [silent(), trickling(b"HTTP/1.1 200 OK\r\n\r\n")])
def test_the_timeout_is_for_the_whole_of_an_attempt(provider: str, speech: Any) -> None:
    failure(provider, "http://127.0.0.1:9/v1")  # the client is imported at its first request
    with speaking(speech) as server:
        error = failure(provider, f"http://{server.address}/v1", timeout=2.0)

        assert server.hung_up.wait(10)
        assert len(server.requests) == 1
    assert isinstance(error, TransientModelError)
    assert "no whole reply within 2 s, which is [model] timeout" in str(error)
    assert (error.maybe_billed, error.rate_limited) == (True, False)


@pytest.mark.parametrize("api_base", ["http://127.0.0.1:9/v1", "http://nowhere.invalid/v1"])
def test_where_nobody_is_nothing_was_billed(provider: str, api_base: str) -> None:
    error = failure(provider, api_base)

    assert isinstance(error, TransientModelError)
    assert "api_base" in str(error)
    assert not error.maybe_billed


def test_a_key_with_a_line_break_is_said_and_not_shown(server: ChatServer, provider: str) -> None:
    error = failure(provider, server.api_base, key=f"{SECRET}\n")

    assert isinstance(error, FatalModelError)
    assert "holds a line break" in str(error)
    assert server.requests == []
