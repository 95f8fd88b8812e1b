"""What a server can do wrong: asked again where that can help, and stopped with one line where not."""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from freshstack_dspy.errors import FatalModelError, TransientModelError
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenClient
from .numbers_server import answer, embeddings, texts_asked, vector

TEXTS = ["a", "b", "c"]
Script = Callable[[dict[str, Any]], Scripted]


def once(server: ChatServer, first: Script) -> None:
    """Do something else with the first request, and answer all others."""
    left = [first]
    server.script = lambda body: left.pop()(body) if left else answer(body)


def changed(body: dict[str, Any], change: Callable[[list[Any]], list[Any]]) -> Scripted:
    said = json.loads(embeddings({**body, "encoding_format": "float"}).encoded())
    said["data"] = change(said["data"])
    return Scripted(body=json.dumps(said).encode())


def with_first(items: list[Any], value: Any) -> list[Any]:
    return [{**items[0], "embedding": value}, *items[1:]]


BAD: dict[str, Callable[[list[Any]], list[Any]]] = {
    "it sent 2 vectors for 3 texts": lambda items: items[:2],
    "it sent 4 vectors for 3 texts": lambda items: [*items, {**items[0], "index": 3}],
    "the indexes of its vectors are not those of the texts": lambda items: [
        items[0],
        items[0],
        items[2],
    ],
    "a vector holds a number that is not finite": lambda items: with_first(
        items, [float("nan")] * 8
    ),
    "a vector is all zero": lambda items: with_first(items, [0.0] * 8),
    r"its vectors have different lengths: \[5, 8\]": lambda items: with_first(items, [1.0] * 5),
    "something else than a list of numbers": lambda items: with_first(items, {"1": 1.0}),
    "a vector is no base64 of float32": lambda items: with_first(items, "AAAA!"),
    "its vectors have 0 numbers": lambda items: [{**item, "embedding": []} for item in items],
}


@pytest.mark.parametrize("said", BAD)
@pytest.mark.usefixtures("waits")
def test_an_answer_that_is_none_is_asked_for_again(
    server: ChatServer, open_client: OpenClient, said: str
) -> None:
    once(server, lambda body: changed(body, BAD[said]))

    found = open_client().vectors(TEXTS)

    assert found.tolist() == [vector(text) for text in TEXTS]
    assert len(server.requests) == 2


@pytest.mark.parametrize("said", BAD)
@pytest.mark.usefixtures("waits")
def test_an_answer_that_is_none_every_time_stops_with_its_reason(
    server: ChatServer, open_client: OpenClient, store: ReplyStore, said: str
) -> None:
    server.script = lambda body: changed(body, BAD[said])

    with pytest.raises(TransientModelError, match=said):
        open_client().vectors(TEXTS)

    assert len(server.requests) == 3
    assert list(store.entries()) == [], "nothing of it is recorded"


def test_what_float32_cannot_hold_is_no_number() -> None:
    from freshstack_dspy.lm.vectors import UnusableError, vectors_of

    with pytest.raises(UnusableError, match="not finite"):
        vectors_of({"data": [{"index": 0, "embedding": [1e39, 1.0]}]}, 1)


def test_too_many_requests_are_waited_for_as_the_server_asks(
    server: ChatServer, open_client: OpenClient, waits: list[float]
) -> None:
    once(server, lambda _: Scripted(status=429, content="slow", headers={"Retry-After": "0.2"}))

    found = open_client().vectors(TEXTS)

    assert waits == [0.2]
    assert len(server.requests) == 2
    assert len(found) == 3


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_error_is_asked_again(
    server: ChatServer, open_client: OpenClient, status: int
) -> None:
    once(server, lambda _: Scripted(status=status, content="oops"))

    assert len(open_client().vectors(TEXTS)) == 3
    assert len(server.requests) == 2


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("name", ["openai", "hosted_vllm", "voyage", "infinity", "mistral"])
def test_one_attempt_is_one_request_with_every_kind_of_client(
    server: ChatServer, open_client: OpenClient, name: str
) -> None:
    server.script = lambda _: Scripted(status=500, content="oops")

    with pytest.raises(TransientModelError, match=r"did not answer: oops, HTTP 500 \(after 3"):
        open_client(model={"name": f"{name}/scripted"}).vectors(["a"])

    assert len(server.requests) == 3


@pytest.mark.parametrize("name", ["openai", "hosted_vllm", "voyage", "cohere"])
def test_a_refused_key_stops_at_once_and_is_not_shown(
    server: ChatServer, open_client: OpenClient, name: str
) -> None:
    from pydantic import SecretStr

    server.script = lambda _: Scripted(status=401, content="wrong key planted-secret-9")
    client = open_client(
        batch=1, model={"name": f"{name}/scripted", "api_key": SecretStr("planted-secret-9")}
    )

    with pytest.raises(FatalModelError) as raised:
        client.vectors([f"text {number}" for number in range(200)])

    assert str(raised.value) == (
        f"{name}/scripted refused the key: check {name.upper()}_API_KEY (wrong key [key], HTTP 401)"
    )
    assert len(server.requests) <= 8, "those that were in flight"


def test_an_unknown_model_is_told_where_it_is_named(
    server: ChatServer, open_client: OpenClient
) -> None:
    server.script = lambda _: Scripted(status=404, content="no such model")

    with pytest.raises(FatalModelError, match=r"check \[\[embedder\]\] model and api_base"):
        open_client().vectors(TEXTS)


def test_an_unknown_provider_is_told_before_anything_is_sent(open_client: OpenClient) -> None:
    with pytest.raises(FatalModelError, match=r"LiteLLM does not know its provider, 'nobody'"):
        open_client(model={"name": "nobody/scripted"}).vectors(TEXTS)


def test_what_litellm_refuses_to_send_is_not_tried_again(
    server: ChatServer, open_client: OpenClient
) -> None:
    client = open_client(model={"name": "mistral/scripted"}, dimensions=4)

    with pytest.raises(FatalModelError, match=r"mistral/scripted cannot be asked: .*dimensions"):
        client.vectors(TEXTS)
    assert server.requests == []


@pytest.mark.usefixtures("waits")
def test_a_server_that_hangs_is_given_up(server: ChatServer, open_client: OpenClient) -> None:
    server.script = lambda body: Scripted(body=embeddings(body).encoded(), delay=3.0)

    with pytest.raises(
        TransientModelError, match=r"no whole reply within 1 s, which is \[\[embedder\]\] timeout"
    ):
        open_client(model={"timeout": 1.0, "retries": 0}).vectors(TEXTS)


def test_no_server_is_told_with_its_address(open_client: OpenClient) -> None:
    model = {"api_base": "http://127.0.0.1:9/v1", "retries": 0}

    with pytest.raises(TransientModelError, match=r"127.0.0.1:9.*\[\[embedder\]\] api_base right"):
        open_client(model=model).vectors(TEXTS)


@pytest.mark.usefixtures("waits")
def test_a_reply_that_would_fill_the_memory_is_not_read(
    server: ChatServer, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshstack_dspy.lm.engine._LONGEST_BODY", 100_000)
    server.script = lambda body: embeddings(body, [[1.0] * 60_000 for _ in body["input"]])

    with pytest.raises(TransientModelError, match="the reply is longer than"):
        open_client(model={"retries": 0}).vectors(TEXTS)


def test_a_vector_that_is_longer_than_any_is_refused() -> None:
    from freshstack_dspy.lm.vectors import UnusableError, vectors_of

    packed = base64.b64encode(struct.pack("<70000f", *[1.0] * 70_000)).decode()

    with pytest.raises(UnusableError, match="its vectors have 70,000 numbers"):
        vectors_of({"data": [{"index": 0, "embedding": packed}]}, 1)


def test_a_model_that_ignores_the_dimensions_is_told_of(
    server: ChatServer, open_client: OpenClient
) -> None:
    server.script = lambda body: embeddings({**body, "dimensions": 8})

    with pytest.raises(FatalModelError, match="vectors of 8 numbers, and dimensions asks for 4"):
        open_client(dimensions=4).vectors(TEXTS)
    assert len(server.requests) == 1


def test_a_model_that_has_changed_behind_its_name_is_told_of(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    open_client().vectors(["a"])
    server.script = lambda body: embeddings({**body, "dimensions": 16})
    client = open_client()

    with pytest.raises(FatalModelError, match="vectors of 16 numbers, and came before 8"):
        client.vectors(["a", "b"])
    assert store.numbers(client.ask_of("b").key) is None


@pytest.mark.parametrize(
    "api_base", ["ftp://x/v1", "http:///v1", "http://user:word@host:port/v1", "http://h/v1?key=1"]
)
def test_an_address_that_is_none_is_told_without_it(open_client: OpenClient, api_base: str) -> None:
    with pytest.raises(FatalModelError) as raised:
        open_client(model={"api_base": api_base})

    assert str(raised.value).startswith("[[embedder]] api_base must be an http or https URL")
    assert api_base not in str(raised.value)


def test_a_server_of_ones_own_needs_no_key(
    server: ChatServer, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_client().vectors(["a"])
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    open_client().vectors(["b"])

    assert [headers.get("Authorization") for headers in server.headers] == [
        "Bearer none",
        "Bearer from-the-environment",
    ]


def test_nothing_is_told_of_the_machine(server: ChatServer, open_client: OpenClient) -> None:
    open_client().vectors(["a"])

    sent = {name.lower() for name in server.headers[0]}
    assert not [name for name in sent if name.startswith("x-stainless")]


def test_the_texts_of_one_request_are_bounded_in_bytes(
    server: ChatServer, open_client: OpenClient
) -> None:
    texts = [f"{number} {'ä' * 50_000}" for number in range(7)]

    open_client(batch=2048).vectors(texts)

    sizes = [sum(len(text.encode()) for text in body["input"]) for body in server.requests]
    assert max(sizes) <= 300_000
    assert sorted(texts_asked(server)) == sorted(texts)
    assert len(server.requests) == 4
