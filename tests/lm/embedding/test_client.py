"""Vectors through the client: asked once, recorded by text, served in every mode."""

import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import Mode
from freshstack_dspy.errors import DamagedReplyError, FatalModelError, ReplayMissError
from freshstack_dspy.lm.reply import Numbers
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.recording import rows

from .conftest import OpenClient
from .numbers_server import DIMENSIONS, embeddings, texts_asked, vector

TEXTS = [f"text {number}" for number in range(10)]


def expected(texts: list[str], dimensions: int = DIMENSIONS) -> Any:
    return np.array([vector(text, dimensions) for text in texts], dtype=np.float32)


def test_each_text_has_its_own_vector(open_client: OpenClient) -> None:
    found = open_client().vectors(TEXTS)

    np.testing.assert_array_equal(expected(TEXTS), found)
    assert found.dtype == np.float32


@pytest.mark.parametrize("batch", [1, 3, 10, 64])
def test_no_request_has_more_texts_than_a_batch(
    server: ChatServer, open_client: OpenClient, batch: int
) -> None:
    open_client(batch=batch).vectors(TEXTS)

    assert sorted(texts_asked(server)) == sorted(TEXTS)
    assert max(len(body["input"]) for body in server.requests) == min(batch, 10)
    assert len(server.requests) == -(-10 // batch)


def test_equal_texts_are_asked_for_once(server: ChatServer, open_client: OpenClient) -> None:
    texts = ["b", "a", "b", "b", "a"]

    found = open_client().vectors(texts)

    np.testing.assert_array_equal(expected(texts), found)
    assert texts_asked(server) == ["b", "a"]


def test_no_text_asks_for_nothing(server: ChatServer, open_client: OpenClient) -> None:
    assert open_client().vectors([]).shape == (0, 0)
    assert server.requests == []


def test_vectors_come_as_base64_which_the_provider_is_asked_for(
    server: ChatServer, open_client: OpenClient
) -> None:
    open_client().vectors(["a"])

    assert server.requests[0]["encoding_format"] == "base64"


def test_a_server_that_sends_numbers_all_the_same_is_understood(
    server: ChatServer, open_client: OpenClient
) -> None:
    server.script = lambda body: embeddings({**body, "encoding_format": "float"})

    np.testing.assert_array_equal(expected(TEXTS), open_client().vectors(TEXTS))


def test_vectors_are_put_in_order_by_their_index(
    server: ChatServer, open_client: OpenClient
) -> None:
    def backwards(body: dict[str, Any]) -> Scripted:
        import json

        said = json.loads(embeddings(body).encoded())
        said["data"].reverse()
        return Scripted(body=json.dumps(said).encode())

    server.script = backwards

    np.testing.assert_array_equal(expected(TEXTS), open_client().vectors(TEXTS))


def test_dimensions_are_asked_for_of_a_model_that_litellm_has_never_heard_of(
    server: ChatServer, open_client: OpenClient
) -> None:
    found = open_client(dimensions=4).vectors(["a"])

    assert server.requests[0]["dimensions"] == 4
    np.testing.assert_array_equal(expected(["a"], 4), found)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("voyage/scripted", {"input_type": "query"}),
        ("nvidia_nim/scripted", {"input_type": "query"}),
        ("hosted_vllm/scripted", {}),
        ("openai/scripted", {}),
    ],
)
def test_a_model_is_told_what_a_text_is_where_it_must_be(
    server: ChatServer, open_client: OpenClient, name: str, told: dict[str, str]
) -> None:
    open_client(model={"name": name}).vectors(["a"], input_type="query")

    body = server.requests[0]
    assert {key: body[key] for key in body if key == "input_type"} == told


def test_the_same_text_as_another_type_is_another_request(
    server: ChatServer, open_client: OpenClient
) -> None:
    client = open_client(model={"name": "voyage/scripted"})
    client.vectors(["a"], input_type="query")
    client.vectors(["a"], input_type="document")

    assert [body["input_type"] for body in server.requests] == ["query", "document"]


def test_a_second_run_asks_for_what_is_missing_and_no_more(
    server: ChatServer, open_client: OpenClient
) -> None:
    open_client().vectors(TEXTS[:7])
    server.requests.clear()

    found = open_client(batch=2).vectors(TEXTS)

    np.testing.assert_array_equal(expected(TEXTS), found)
    assert sorted(texts_asked(server)) == TEXTS[7:]


def test_a_replay_opens_no_socket(open_client: OpenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    open_client().vectors(TEXTS)

    def refuse(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    replay = open_client("replay")
    monkeypatch.setattr(socket, "socket", refuse)
    np.testing.assert_array_equal(expected(TEXTS), replay.vectors(TEXTS))


def test_a_replay_that_misses_names_the_text_and_what_to_do(open_client: OpenClient) -> None:
    open_client().vectors(["here"])

    with pytest.raises(ReplayMissError) as raised:
        open_client("replay").vectors(["here", "not here", "nor here"])

    assert str(raised.value).startswith(
        "no recorded vector by openai/scripted for 'not here', and 2 missing: "
    )
    assert str(raised.value).endswith("or name a bundle that has it in [cache] bundles")


def test_a_replay_that_misses_says_how_the_recorded_requests_differ(
    open_client: OpenClient,
) -> None:
    open_client().vectors(["here"])

    with pytest.raises(ReplayMissError, match=r"dimensions \(None recorded, 4 asked\)"):
        open_client("replay", dimensions=4).vectors(["here"])


def test_a_replay_without_any_store_says_that_nothing_is_recorded(open_client: OpenClient) -> None:
    with pytest.raises(ReplayMissError, match="nothing is recorded at all"):
        open_client("replay", access={"store": None}).vectors(["here"])


def test_refresh_asks_again_once_and_keeps_what_it_replaces(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    open_client().vectors(["a"])
    server.script = lambda body: embeddings(body, vectors=[[1.0] * 8 for _ in body["input"]])
    client = open_client("rerecord")

    client.vectors(["a"])
    found = client.vectors(["a"])

    assert len(server.requests) == 2, "once in each run"
    assert found.tolist() == [[1.0] * 8]
    replaced = store.replaced(client.ask_of("a").key, 1)
    assert isinstance(replaced, Numbers)
    assert replaced.array().tolist() == vector("a")


def test_defer_asks_for_vectors_as_live_does(server: ChatServer, open_client: OpenClient) -> None:
    np.testing.assert_array_equal(expected(TEXTS), open_client("defer").vectors(TEXTS))
    assert len(server.requests) == 3


@pytest.mark.parametrize("mode", ["live", "defer", "rerecord"])
def test_a_mode_that_asks_needs_a_store(open_client: OpenClient, mode: Mode) -> None:
    with pytest.raises(FatalModelError, match=f"mode '{mode}' needs a replies store"):
        open_client(mode, access={"store": None})


def test_used_vectors_are_named_by_what_they_say(open_client: OpenClient) -> None:
    live, replay = open_client(), open_client("replay")
    live.vectors(TEXTS)
    replay.vectors(TEXTS[::-1])

    assert live.used() == replay.used()
    assert list(live.used()) == sorted(live.ask_of(text).key for text in TEXTS)


def _damage(store: ReplyStore, key: str) -> None:
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET value = replace(value, 'counted', 'counter') WHERE key = ?",
            (f"entry:{key}",),
        )


def test_a_damaged_vector_is_asked_for_again_and_stops_a_replay(
    server: ChatServer,
    open_client: OpenClient,
    store: ReplyStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = open_client()
    client.vectors(["a", "b"])
    _damage(store, client.ask_of("a").key)

    with pytest.raises(DamagedReplyError, match="not a recorded reply"):
        open_client("replay").vectors(["a", "b"])
    server.requests.clear()
    np.testing.assert_array_equal(expected(["a", "b"]), open_client().vectors(["a", "b"]))
    assert texts_asked(server) == ["a"]
    assert "asked again" in caplog.text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(
    parts=st.lists(
        st.lists(st.sampled_from(TEXTS) | st.text(min_size=1, max_size=6), max_size=8), max_size=4
    ),
    batch=st.integers(1, 5),
)
def test_however_texts_are_cut_into_calls_and_requests_the_vectors_are_the_same(
    server: ChatServer, open_client: OpenClient, parts: list[list[str]], batch: int
) -> None:
    parts = [[text.encode("utf-8", "ignore").decode() or "x" for text in part] for part in parts]
    client = open_client(batch=batch)
    before = texts_asked(server)

    for part in parts:
        if part:
            np.testing.assert_array_equal(expected(part), client.vectors(part))

    asked = texts_asked(server)
    assert len(set(asked)) == len(asked), "no text is asked for twice, in any run over one store"
    assert asked[: len(before)] == before
