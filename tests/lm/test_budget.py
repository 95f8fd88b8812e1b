"""Caps on calls, tokens and money hold, whatever is in flight."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Usage
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.config import BudgetConfig, PricesConfig
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.lm.budget import Account, Spent, upper_bound
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.asking import Scribe, request
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.recording import ask

PRICES = PricesConfig(input=1.0, output=2.0)
MAX_TOKENS = 300


def _billing(server: ChatServer, seed: int) -> list[tuple[int, int]]:
    """Let every reply take a random part of the tokens that it may; return what is billed."""
    billed: list[tuple[int, int]] = []
    draw = random.Random(seed)
    guard = threading.Lock()

    def script(body: dict[str, Any]) -> Scripted:
        sent = sum(len(message["content"].encode()) for message in body["messages"])
        with guard:
            counts = (draw.randint(1, sent), draw.randint(1, MAX_TOKENS))
            billed.append(counts)
            slow = len(billed) <= 64
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
        return Scripted("there", usage=usage, delay=0.4 if slow else 0)

    server.script = script
    return billed


@pytest.fixture
def paying(server: ChatServer, store: ReplyStore) -> Callable[..., RecordedLM]:
    def open_client(**caps: Any) -> RecordedLM:
        model = ModelConfig(
            name="openai/scripted", api_base=server.api_base, concurrency=64, max_tokens=MAX_TOKENS
        )
        account = Account("mine", BudgetConfig(**caps), PRICES)
        return connect(model, store=store, account=account)

    return open_client


def _ask_all(lm: RecordedLM, questions: list[str]) -> list[Any]:
    def one(question: str) -> Any:
        return lm(request(question, max_tokens=MAX_TOKENS))

    return map_in_order(one, questions, workers=64)


@pytest.mark.parametrize(
    ("caps", "taken"),
    [
        ({"calls": 90}, len),
        pytest.param(
            {"tokens": 60_000}, lambda billed: sum(map(sum, billed)), marks=pytest.mark.slow
        ),
        pytest.param(
            {"dollars": 0.08},
            lambda billed: sum(one + 2 * other for one, other in billed) / 1_000_000,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_no_cap_is_overshot_with_64_requests_in_flight(
    server: ChatServer,
    store: ReplyStore,
    paying: Callable[..., RecordedLM],
    caps: dict[str, Any],
    taken: Callable[[list[tuple[int, int]]], float],
) -> None:
    billed = _billing(server, 1)
    questions = [f"{number} {'words ' * (number % 40)}" for number in range(400)]

    with pytest.raises(BudgetError, match="does not allow another call"):
        _ask_all(paying(**caps), questions)

    ((name, cap),) = caps.items()
    assert cap * 0.9 < taken(billed) <= cap, "used up, and not overshot"
    assert store.spent("mine").calls == len(billed)
    assert getattr(store.spent("mine"), name) == pytest.approx(taken(billed))
    assert server.at_once > 24, "there was something to overshoot with"


def test_calls_wait_while_those_in_flight_may_come_back_cheaper(
    server: ChatServer, paying: Callable[..., RecordedLM]
) -> None:
    """A cap of little more than three worst cases still lets many cheap calls through."""
    billed = _billing(server, 4)
    worst = upper_bound(ask("question 10", parameters={"max_tokens": MAX_TOKENS}), None).tokens
    lm = paying(tokens=4 * worst)
    server.script = lambda _: Scripted("x", usage={"prompt_tokens": 1, "completion_tokens": 1})

    assert len(_ask_all(lm, [f"question {number}" for number in range(100)])) == 100
    assert server.at_once <= 4
    assert billed == []


def test_a_cap_on_dollars_needs_a_price_before_the_first_call(
    server: ChatServer, store: ReplyStore
) -> None:
    model = ModelConfig(name="openai/scripted", api_base=server.api_base)
    with pytest.raises(
        ConfigError, match=r"the price of openai/scripted is not known: set \[prices\]"
    ):
        connect(model, store=store, account=Account(caps=BudgetConfig(dollars=1)))
    assert server.requests == []


def test_a_reply_without_a_count_is_counted_at_its_upper_bound(
    server: ChatServer, store: ReplyStore, paying: Callable[..., RecordedLM]
) -> None:
    server.says(Scripted("there", usage=None))
    paying(tokens=10_000)(request("hello", max_tokens=MAX_TOKENS))
    assert store.spent("mine").tokens > MAX_TOKENS


def test_what_a_model_thinks_is_paid_for_where_only_the_total_counts_it(
    server: ChatServer, store: ReplyStore, paying: Callable[..., RecordedLM]
) -> None:
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 215}
    server.says(Scripted("there", usage=counts))
    paying(tokens=10_000)(request("hello", max_tokens=MAX_TOKENS))

    (reply,) = store.replies()
    assert (reply.input_tokens, reply.output_tokens) == (10, 205)
    assert reply.cost == pytest.approx(10 * 1e-6 + 205 * 2e-6)
    assert store.spent("mine") == Spent(calls=1, tokens=215, dollars=reply.cost)


def test_an_attempt_that_may_have_been_billed_counts(store: ReplyStore, waits: list[float]) -> None:
    model = ModelConfig(name="openai/scripted")
    provider = Scribe(None, "there", None, usage=Usage(input_tokens=1, output_tokens=1))
    account = Account(caps=BudgetConfig(calls=3), prices=PRICES)
    lm = connect(model, store=store, provider=provider, account=account)
    lm(request("first"))
    assert store.spent("default").calls == 2
    assert store.spent("default").dollars > 0, "a cap that is set later counts it"
    with pytest.raises(BudgetError, match="calls = 3 does not allow another call: 3 spent so far"):
        lm(request("second"))
    assert len(provider.asked) == 3
    assert len(waits) == 1


@settings(deadline=None)
@given(text=st.text(max_size=400))
def test_no_text_has_more_tokens_than_are_reserved_for_it(text: str) -> None:
    assert count_tokens(text) + 9 <= upper_bound(ask(text), None).tokens


def test_a_model_that_is_saved_keeps_its_account(tmp_path: Path) -> None:
    account = Account("mine", BudgetConfig(calls=3), PRICES)
    lm = connect(ModelConfig(), store=tmp_path, account=account)

    again = type(lm).load_state(json.loads(json.dumps(lm.dump_state()))).client.access.account

    assert (again.name, again.caps, again.prices) == ("mine", account.caps, PRICES)
