"""The accounts of the steps."""

from concurrent.futures import ThreadPoolExecutor

from freshstack_dspy.lm.usage import Ledger, StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.asking import BERN, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect


def test_what_is_entered_is_added_up_by_step() -> None:
    ledger = Ledger()
    with step("nuggets"):
        ledger.enter(calls=1, tokens=7, cost=0.5)
        ledger.enter(reasked=1)
        ledger.enter(failed=1)
    with step("support"), step("inner"):
        ledger.enter(cached=1, cached_tokens=7, cached_cost=0.5)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ledger.enter(calls=1, tokens=7, cost=0.5), range(400)))

    assert ledger.steps() == {
        "inner": StepLedger(cached=1, cached_tokens=7, cached_cost=0.5),
        "nuggets": StepLedger(calls=1, reasked=1, failed=1, tokens=7, cost=0.5),
        "other": StepLedger(calls=400, tokens=2800, cost=200.0),
    }
    assert list(ledger.steps()) == ["inner", "nuggets", "other"]


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
