"""The modes of the client."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from freshstack_dspy import ReplyStore
from freshstack_dspy.errors import (
    DamagedReplyError,
    DeferredError,
    ReplayMissError,
    ReplyError,
)
from freshstack_dspy.lm.bundle import verify
from freshstack_dspy.lm.recorder import explain_miss
from freshstack_dspy.lm.request import ChatRequest

from .asking import BERN, ask_cities, request
from .chat_server import ChatServer
from .conftest import Connect, forbid_sockets
from .recording import EMBEDDING, SEARCH, Listed, ask, every_entry, reply_to, rows


def test_live_asks_once_and_serves_from_then_on(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says("first", "second")
    response, again = client_for()(request()), client_for()(request())
    reply = store.get(response.id)

    assert (response.text, again.text, len(server.requests)) == ("first", "first", 1)
    assert reply is not None
    assert [message.content for message in reply.request.messages] == ["be brief", "hello"]
    assert (reply.input_tokens, reply.output_tokens) == (7, 3)
    assert (reply.finish_reason, reply.origin) == ("stop", "live")


def test_replay_serves_without_a_socket(server: ChatServer, client_for: Connect) -> None:
    server.says(BERN)
    recorded = ask_cities(client_for())
    with pytest.MonkeyPatch.context() as patch:
        forbid_sockets(patch)
        replayed = ask_cities(client_for("replay"))

    assert (recorded.cities, recorded.call_id) == (replayed.cities, replayed.call_id)


def test_a_replay_miss_opens_no_socket_and_names_key_nearest_request_and_difference(
    server: ChatServer, client_for: Connect
) -> None:
    lm = client_for()
    near = lm(request("How high is the tower of Pisa?", temperature=0.5)).id
    lm(request("Something else entirely", temperature=0.5))
    missing = request("How high is the tower of Pisa?", temperature=0.7)
    replay = client_for("replay")
    with pytest.MonkeyPatch.context() as patch:
        forbid_sockets(patch)
        with pytest.raises(ReplayMissError) as caught:
            replay(missing)
    message = str(caught.value)

    assert replay.key_of(missing) in message
    assert near[:12] in message
    assert "temperature (0.5 recorded, 0.7 asked)" in message
    assert "mode='live'" in message
    assert "\n" not in message


def test_replay_writes_nothing(server: ChatServer, store: ReplyStore, client_for: Connect) -> None:
    """Not even what a served reply turns out to be worth."""
    server.says("prose")
    with pytest.raises(ReplyError):
        ask_cities(client_for())
    before = [reply.model_dump() for reply in store.replies()]
    with pytest.raises(ReplyError):
        ask_cities(client_for("replay"))

    assert before == [reply.model_dump() for reply in store.replies()]


def test_defer_writes_the_request_down_and_serves_what_is_there(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    client_for()(request("known"))
    lm = client_for("defer")

    assert lm(request("known")).text == "{}"
    for _ in range(2):
        with pytest.raises(DeferredError, match="written down"):
            lm(request("new"))

    assert [lm.key_of(request("new"))] == [ask.key for ask in store.deferred()]
    assert (len(server.requests), len(lm.client.deferred)) == (1, 1)
    client_for()(request("new"))
    assert list(store.deferred()) == []


def test_rerecord_asks_again_once_in_a_run(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says("old", "new", "newest")
    client_for()(request())
    lm = client_for("rerecord")

    assert [lm(request()).text, lm(request()).text] == ["new", "new"]
    assert [reply.text for reply in store.replies()] == ["new"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("change", ["value = replace(value, '17', '71')", "tag = 'x'"])
def test_a_damaged_reply_is_a_miss_in_a_replay_and_is_asked_again_live_and_counted(
    server: ChatServer,
    store: ReplyStore,
    client_for: Connect,
    caplog: pytest.LogCaptureFixture,
    change: str,
) -> None:
    server.says("17", "18")
    lm = client_for()
    key = lm(request()).id
    with rows(store) as table:
        table.execute(f"UPDATE Cache SET {change} WHERE key LIKE 'entry:%'")

    with pytest.raises(ReplayMissError, match=f"{key} is damaged: .*; record it again in mode"):
        client_for("replay")(request())
    with pytest.raises(DamagedReplyError):
        store.read(key)
    assert list(verify(store.path).damaged) == [f"entry:{key}"]
    lm = client_for()
    assert [lm(request()).text for _ in range(2)] == ["18", "18"]
    assert lm.ledger.of("other").line == "1 calls, 1 recorded, 1 damaged, asked again"
    assert "asked again" in caplog.text
    assert verify(store.path).counts == {"accounts": 1, "chat": 1}, "what was damaged is dropped"


def test_a_copied_program_keeps_its_client(client_for: Connect) -> None:
    """DSPy's optimizers copy programs, and with them the models that they hold."""
    lm = client_for()

    assert lm.client is copy.deepcopy(lm).client
    assert copy.deepcopy(lm)(request()).text == "{}"


# Why a replay found no reply


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
