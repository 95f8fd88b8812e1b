"""Vectors are paid from the same account as replies, and no cap is overshot."""

import random
import threading
from typing import Any

import pytest

from freshstack_dspy.config import BudgetConfig, ModelConfig, PricesConfig
from freshstack_dspy.errors import BudgetError, ConfigError, TransientModelError
from freshstack_dspy.lm.budget import Account, InFlight
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.asking import request
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenClient, OpenReranker
from .numbers_server import answer, embeddings

PRICE = Price(input=1e-6, output=0)


def billing(server: ChatServer, billed: list[int]) -> None:
    """Let every request take a random part of the tokens that it may."""
    draw = random.Random(5)
    guard = threading.Lock()

    def script(body: dict[str, Any]) -> Scripted:
        if "messages" in body:
            sent = sum(len(message["content"].encode()) for message in body["messages"])
        else:
            sent = sum(len(text.encode()) for text in body["input"])
        with guard:
            taken = draw.randint(1, sent)
            billed.append(taken)
            slow = 0.2 if len(billed) <= 32 else 0.0
        usage = {"prompt_tokens": taken, "total_tokens": taken, "completion_tokens": 0}
        if "messages" in body:
            return Scripted("there", usage=usage, delay=slow)
        return Scripted(body=embeddings(body, usage=usage).encoded(), delay=slow)

    server.script = script


@pytest.mark.parametrize(
    ("caps", "scale"), [({"tokens": 6_000}, 1.0), ({"dollars": 0.006}, 1e-6), ({"calls": 60}, None)]
)
def test_no_cap_is_overshot_with_32_requests_in_flight(
    server: ChatServer,
    open_client: OpenClient,
    store: ReplyStore,
    caps: dict[str, Any],
    scale: float | None,
) -> None:
    billed: list[int] = []
    billing(server, billed)
    account = Account("mine", BudgetConfig(**caps))
    client = open_client(access={"account": account}, model={"concurrency": 32}, price=PRICE)
    texts = [f"{number} {'words ' * (number % 20)}" for number in range(2000)]

    with pytest.raises(BudgetError, match="does not allow another call"):
        client.vectors(texts)

    ((name, cap),) = caps.items()
    taken = len(billed) if scale is None else sum(billed) * scale
    assert cap * 0.75 < taken <= cap, "used up, and not overshot"
    assert getattr(store.spent("mine"), name) == pytest.approx(taken)
    assert server.at_once > 8, "there was something to overshoot with"


def test_one_cap_holds_for_replies_and_vectors_that_are_in_flight_together(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    billed: list[int] = []
    billing(server, billed)
    account = Account("mine", BudgetConfig(tokens=12_000), PricesConfig(), in_flight=InFlight())
    client = open_client(access={"account": account}, model={"concurrency": 8})
    lm = connect(
        ModelConfig(name="openai/scripted", api_base=server.api_base, concurrency=8, max_tokens=16),
        store=store,
        account=account,
    )

    def replies() -> None:
        map_in_order(
            lambda number: lm(request(f"question {number}", max_tokens=16)), range(400), workers=8
        )

    def vectors() -> None:
        client.vectors([f"{number} {'words ' * 9}" for number in range(2000)])

    def stopped(work: Any) -> bool:
        with pytest.raises(BudgetError):
            work()
        return True

    assert map_in_order(stopped, [replies, vectors], workers=2) == [True, True]
    lm.client.close()

    assert 12_000 * 0.75 < sum(billed) <= 12_000
    assert store.spent("mine").tokens == sum(billed)


def test_a_cap_on_dollars_needs_a_price(
    open_client: OpenClient, open_reranker: OpenReranker
) -> None:
    account = Account("mine", BudgetConfig(dollars=1))

    with pytest.raises(ConfigError) as raised:
        open_client(access={"account": account})
    assert str(raised.value) == (
        "[budget] dollars is 1, and nobody says what openai/scripted costs: set price of "
        "[[embedder]], in dollars per million tokens, 0 for a server of one's own, or cap tokens "
        "or calls"
    )
    with pytest.raises(ConfigError, match=r"set price of \[reranker\]"):
        open_reranker(access={"account": account})
    open_client("replay", access={"account": account})


@pytest.mark.usefixtures("waits")
def test_attempts_that_may_have_been_billed_are_counted_at_their_worst(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda _: Scripted(drop=True)
    account = Account("mine")

    with pytest.raises(TransientModelError):
        open_client(access={"account": account}).vectors(["abc"])

    assert (store.spent("mine").calls, store.spent("mine").tokens) == (3, 3 * (3 + 8))


def test_what_is_not_counted_is_spent_at_its_worst(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda body: embeddings(body, usage=None)

    open_client(access={"account": Account("mine")}).vectors(["abc", "de"])

    assert store.spent("mine").tokens == 5 + 2 * 8


def test_recorded_vectors_cost_nothing(open_client: OpenClient, store: ReplyStore) -> None:
    account = Account("mine", BudgetConfig(calls=1))
    open_client(access={"account": account}).vectors(["a"])

    open_client(access={"account": account}).vectors(["a"])
    with pytest.raises(BudgetError, match="1 spent so far"):
        open_client(access={"account": account}).vectors(["b"])

    assert store.spent("mine").calls == 1


def test_a_larger_cap_goes_on_where_the_smaller_one_stopped(
    server: ChatServer, open_client: OpenClient
) -> None:
    texts = [f"text {number}" for number in range(40)]
    server.script = answer

    with pytest.raises(BudgetError):
        open_client(access={"account": Account("mine", BudgetConfig(calls=4))}).vectors(texts)
    open_client(access={"account": Account("mine", BudgetConfig(calls=10))}).vectors(texts)

    assert len(server.requests) == 10
