"""The accounts of the steps."""

from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.asking import BERN, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect


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
