"""Contexts that end: what servers say, and how a request that is too long becomes several."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from freshstack_dspy.errors import FatalModelError, ReplyError, TooLongError, TransientModelError
from freshstack_dspy.lm.capabilities import is_too_long, window_in, window_listed
from freshstack_dspy.lm.typed import in_bulk
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.records import Chunk, Nugget, Query

from .asking import request
from .chat_server import ChatServer, Scripted
from .conftest import Connect

REFUSALS = {
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
    "(3976 in the messages, 1024 in the completion).": 4096,
    "'max_tokens' is too large: 4096. This model's maximum context length is 4096 tokens and your "
    "request has 900 input tokens (4096 > 4096 - 900).": 4096,
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.": 4096,
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing": 4096,
    "the request exceeds the available context size. try increasing the context size": None,
    '{"type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}': 4096,
    "prompt is too long: 205,000 tokens > 200,000 maximum": 200_000,
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000": 200_000,
    "The input token count (12) exceeds the maximum number of tokens allowed (1048576).": 1_048_576,
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).": 4096,
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": 32_768,
    "the model is loaded with context length of only 4096 tokens, which is not enough.": 4096,
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens": 4096,
    "too many tokens: total number of tokens in this request cannot exceed 4081 tokens": 4081,
    "Your input exceeds the context window of this model. (context_length_exceeded)": None,
    "Please reduce the length of the messages or completion.": None,
    "Input is too long for requested model.": None,
}
TOO_LONG = next(iter(REFUSALS))


@pytest.mark.parametrize(("message", "window"), REFUSALS.items())
def test_providers_say_that_a_request_is_too_long_in_these_words(
    message: str, window: int | None
) -> None:
    assert is_too_long(message)
    assert window_in(message) == window


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for response_format 'JudgeSupport': 'minLength' is not permitted.",
        "temperature must be 1 for this model",
        "The response was filtered due to the prompt triggering our content management policy.",
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens",
    ],
)
def test_other_refusals_are_not_taken_for_it(message: str) -> None:
    assert not is_too_long(message)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ({"id": "small", "max_model_len": 4096}, 4096),
        ({"id": "other.gguf", "meta": {"n_ctx_train": 8192, "n_params": 1}}, 8192),
        ({"id": "other.gguf", "meta": {"n_ctx_train": 8192, "n_ctx": 4096}}, 4096),
        ({"id": "small", "loaded_context_length": 4096, "max_context_length": 32768}, 4096),
        ({"id": "small", "object": "model"}, None),
        ({"id": "small", "max_model_len": "many"}, None),
    ],
)
def test_servers_list_what_a_model_takes_under_these_names(model: Any, window: int | None) -> None:
    assert window_listed({"object": "list", "data": [model]}, "small") == window


QUERY = Query(query_id="q", title="Which fruits?", body="", answer="")
NUGGETS = [Nugget(query_id="q", nugget_id="q_0", text="Apples.", importance="vital", call_id="k")]


def chunks(*texts: str) -> list[Chunk]:
    return [
        Chunk(
            chunk_id=f"s/f_{number}_{number + 1}",
            source="s",
            path="f",
            start_byte=number,
            end_byte=number + len(text),
            text=text,
            tokens=1,
        )
        for number, text in enumerate(texts)
    ]


def holding(characters: int) -> Callable[[dict[str, Any]], Scripted]:
    """A server that refuses prompts of more characters, and supports nothing."""

    def script(body: dict[str, Any]) -> Scripted:
        prompt = body["messages"][-1]["content"]
        if len(prompt) > characters:
            return Scripted(TOO_LONG, status=400)
        numbers = [chunk["number"] for chunk in json.loads(prompt)["chunks"]]
        verdicts = [{"chunk": number, "reason": "no", "supported": []} for number in numbers]
        return Scripted(json.dumps({"verdicts": verdicts}))

    return script


def judged(lm: Any, *texts: str) -> Any:
    with in_bulk(lm):
        return SupportJudge("binary")(query=QUERY, nuggets=NUGGETS, chunks=chunks(*texts))


def test_a_request_that_is_too_long_is_asked_in_parts_and_replayed_so(
    server: ChatServer, client_for: Connect
) -> None:
    server.script = holding(1500)
    texts = ["a pear " * 50] * 8
    lm = client_for()
    found = judged(lm, *texts)

    assert [one.label for one in found.judgments] == [0] * 8
    assert found.failure is None
    asked = len(server.requests)
    assert asked < 15, "halves, not single chunks"

    replayed = judged(client_for("replay"), *texts)
    assert replayed.judgments == found.judgments
    assert judged(client_for(), *texts).judgments == found.judgments
    assert len(server.requests) == asked


def test_what_a_refusal_taught_is_not_learned_again_for_the_next_item(
    server: ChatServer, client_for: Connect
) -> None:
    server.script = holding(1500)
    lm = client_for()
    judged(lm, *["a pear " * 50] * 8)
    before = len(server.requests)
    refused: list[dict[str, Any]] = []

    def watching(body: dict[str, Any]) -> Scripted:
        reply = holding(1500)(body)
        refused.extend([body] if reply.status == 400 else [])
        return reply

    server.script = watching
    longer = ["a longer plum " * 40] * 8
    found = judged(lm, *longer)

    assert [one.label for one in found.judgments] == [0] * 8
    assert refused == []
    assert lm.ledger.of("other").calls == len(server.requests)
    assert len(server.requests) > before
    assert judged(client_for("replay"), *longer).judgments == found.judgments


def test_a_chunk_that_does_not_fit_alone_fails_alone_and_says_so(
    server: ChatServer, client_for: Connect
) -> None:
    server.script = holding(1500)
    found = judged(client_for(), "a pear", "a pear " * 500, "a plum", "a fig")

    assert [one.label for one in found.judgments] == [0, None, 0, 0]
    assert found.failure.chunk_ids == ("s/f_1_2",)
    assert found.failure.status == "failed"
    assert "[model] context" in found.failure.message


def test_requests_that_are_too_long_are_no_outage(server: ChatServer, client_for: Connect) -> None:
    server.says(Scripted(TOO_LONG, status=400))
    lm = client_for(max_tokens=16)
    for number in range(8):
        with pytest.raises(TooLongError):
            lm(request(f"{'word ' * (90 - number)}"))

    assert len(server.requests) == 8, "each is shorter than all that were refused"


def test_three_refusals_are_no_outage_where_the_model_answered_before(
    server: ChatServer, client_for: Connect
) -> None:
    server.says("there")
    client_for()(request("first"))
    server.says(Scripted("no", status=400))
    lm = client_for()
    for number in range(5):
        with pytest.raises(ReplyError):
            lm(request(str(number)))

    other = client_for(name="openai/other")
    for number in range(2):
        with pytest.raises(ReplyError):
            other(str(number))
    with pytest.raises(FatalModelError, match="so were all 3 requests"):
        other("2")


@pytest.mark.usefixtures("waits")
def test_who_was_not_answered_is_asked_again_unless_others_were_since(
    server: ChatServer, client_for: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100, 999))
    monkeypatch.setattr(
        "freshstack_dspy.lm.reply._now", lambda: f"2026-01-01T00:00:00.{next(clock)}+00:00"
    )
    server.says(Scripted("oops", status=500))
    with pytest.raises(ReplyError):
        client_for(retries=0)(request("a"))
    server.says("there")
    assert client_for()(request("a")).text == "there", "it may have been an outage"

    server.says(Scripted("oops", status=500), "there")
    lm = client_for(retries=0)
    with pytest.raises(ReplyError):
        lm(request("b"))
    lm(request("c"))
    asked = len(server.requests)
    with pytest.raises(ReplyError, match="oops"):
        client_for()(request("b"))
    assert len(server.requests) == asked


@pytest.mark.usefixtures("waits")
def test_a_model_that_never_answered_is_an_outage_after_one_request(
    server: ChatServer, client_for: Connect
) -> None:
    """A step of one or two calls at a dead address would otherwise write failures alone."""
    server.says(Scripted("oops", status=500))
    lm = client_for(retries=0)
    lm.client.retries.check_answered()
    with pytest.raises(ReplyError):
        lm(request("a"))
    with pytest.raises(TransientModelError, match="no request was ever answered"):
        lm.client.retries.check_answered()

    server.says("there", Scripted("oops", status=500))
    client_for()(request("b"))
    again = client_for(retries=0)
    with pytest.raises(ReplyError):
        again(request("c"))
    again.client.retries.check_answered()
