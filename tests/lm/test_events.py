"""One event for each call: who asked, what came of it, how long it took and what it cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.config import PricesConfig
from freshstack_dspy.errors import DeferredError, FatalModelError, ReplayMissError
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.events import CallEvent, event_log
from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order

from .asking import BERN, PROSE, ask_cities, request
from .chat_server import ChatServer, Scripted
from .conftest import Connect

PRICES = PricesConfig(input=1.0, output=2.0)


def _listening(
    server: ChatServer,
    store: ReplyStore,
    events: list[CallEvent],
    **options: Any,
) -> RecordedLM:
    model = ModelConfig(
        name="openai/scripted",
        api_base=server.api_base,
        retries=1,
        reasks=0,
    )
    account = Account(prices=PRICES)
    return connect(model, store=store, account=account, callback=events.append, **options)


@pytest.mark.usefixtures("waits")
def test_a_call_and_its_replay_are_one_event_each(server: ChatServer, store: ReplyStore) -> None:
    server.says(Scripted("oops", status=503), "there")
    events: list[CallEvent] = []
    lm = _listening(server, store, events)
    with step("nuggets"):
        lm(request())
        lm(request())

    asked, served = events
    assert (asked.step, asked.model, asked.status) == ("nuggets", "openai/scripted", "ok")
    assert (asked.cached, asked.attempts, served.cached, served.attempts) == (False, 2, True, 0)
    assert (asked.input_tokens, asked.output_tokens) == (7, 3)
    assert asked.cost == pytest.approx(7e-06 + 6e-06)
    assert asked.key == served.key == lm.key_of(request())
    assert served.seconds > 0


def test_a_request_without_a_reply_says_why(server: ChatServer, store: ReplyStore) -> None:
    events: list[CallEvent] = []
    server.says(Scripted("who are you", status=401))
    with pytest.raises(FatalModelError):
        _listening(server, store, events)(request())
    with pytest.raises(DeferredError):
        _listening(server, store, events, mode="defer")(request())
    with pytest.raises(ReplayMissError):
        _listening(server, store, events, mode="replay")(request())

    assert [event.status for event in events] == ["error", "deferred", "error"]
    assert "refused the key" in (events[0].error or "")
    assert "no recorded reply" in (events[2].error or "")


def test_the_log_is_a_line_of_json_a_call_and_holds_no_text(
    server: ChatServer, store: ReplyStore, tmp_path: Path
) -> None:
    server.says(PROSE)
    path = tmp_path / "new" / "calls.jsonl"
    model = ModelConfig(name="openai/scripted", api_base=server.api_base)
    for _ in range(2):
        with event_log(path) as log, pytest.raises(Exception, match="no valid reply"):
            ask_cities(connect(model, store=store, callback=log))

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [CallEvent.model_validate(line).task for line in lines] == ["ListCities"] * 6
    assert [line["cached"] for line in lines] == [False] * 3 + [True] * 3
    assert PROSE not in path.read_text()


# The accounts of the steps


def test_calls_re_asks_and_replays_are_counted_by_step(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    server.says("prose", Scripted("busy", status=503), BERN)
    lm, replay = client_for(), client_for("replay")
    with step("nuggets"):
        map_in_order(lambda country: ask_cities(lm, country), ["Switzerland"], workers=2)
        ask_cities(lm)
    with step("support"):
        ask_cities(replay)

    assert lm.ledger.steps() == {
        "nuggets": StepLedger(calls=2, cached=2, reasked=2, tokens=20, cached_tokens=20)
    }
    assert replay.ledger.steps() == {"support": StepLedger(cached=2, reasked=1, cached_tokens=20)}
