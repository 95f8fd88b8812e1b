"""Vectors and scores: asked once, validated, recorded and paid as replies are."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.config import BudgetConfig, Mode, PricesConfig
from freshstack_dspy.errors import (
    BudgetError,
    FatalModelError,
    ReplayMissError,
    TransientModelError,
)
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.prices import Price, rerank_price_of
from freshstack_dspy.lm.request import (
    EmbeddingRequest,
    RerankRequest,
    sha256_of,
    text_hash,
)
from freshstack_dspy.lm.usage import Ledger, StepLedger
from freshstack_dspy.lm.vectors import (
    RERANK_STEP,
    STEP,
    Access,
    EmbeddingClient,
    HostedModel,
    RerankClient,
)
from freshstack_dspy.lm.workers import map_in_order

from .asking import request
from .chat_server import ChatServer, Scripted
from .conftest import forbid_sockets
from .numbers_server import DIMENSIONS, answer, embeddings, reranked, score, texts_asked, vector

TEXTS = [f"text {number}" for number in range(10)]
PASSAGES = ["one", "two", "three", "two"]
SCORES = [score("query", passage) for passage in PASSAGES]
PRICE = Price(input=0.5, output=0)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


class OpenClient(Protocol):
    def __call__(self, mode: Mode = "live", **settings: Any) -> Any: ...


@pytest.fixture
def open_client(server: ChatServer, store: ReplyStore) -> Iterator[OpenClient]:
    """Opens clients to the server over one store, as runs of a build do one after the other."""
    opened: list[Any] = []

    def open_one(
        mode: Mode = "live",
        *,
        name: str = "openai/scripted",
        kind: Any = EmbeddingClient,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        section = "[[embedder]]" if kind is EmbeddingClient else "[reranker]"
        given = {"api_base": server.api_base, "retries": 2, "timeout": 20, **(model or {})}
        settings = {"batch": 4, **settings} if kind is EmbeddingClient else settings
        what = Access(**{"mode": mode, "store": store, **(access or {})})
        opened.append(kind(HostedModel(name, section, **given), what, **settings))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def open_reranker(open_client: OpenClient) -> OpenClient:
    def open_one(mode: Mode = "live", name: str = "infinity/scripted", **settings: Any) -> Any:
        return open_client(mode, name=name, kind=RerankClient, **settings)

    return open_one


def expected(texts: list[str], dimensions: int = DIMENSIONS) -> Any:
    return np.array([vector(text, dimensions) for text in texts], dtype=np.float32)


# --- keys


EMBEDDING = EmbeddingRequest(
    model="openai/text-embedding-3-small",
    endpoint="https://api.example.org/v1",
    dimensions=256,
    input_type="search_query",
    text=text_hash("query: Wie groß?"),
)
RERANK = RerankRequest(
    model="cohere/rerank-v3.5",
    endpoint="cohere:default",
    query=text_hash("Wie groß?"),
    passages=sha256_of(sorted([text_hash("b"), text_hash("a")])),
    count=2,
)


def test_the_keys_of_known_requests_never_change_by_accident() -> None:
    """All recorded vectors are lost with them: a change raises KEY_VERSION and is announced."""
    assert EMBEDDING.key == "0818310bb0f582c9a128df2a6b75278324ceac6ae71180e7c716a23589eb9539"
    assert RERANK.key == "d645b855b7f5e18c2cebfdc6b519a0bc37d5304daf0a6599a1f46c40f4d9e977"


# --- asking


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    parts=st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8), max_size=4),
    batch=st.integers(1, 5),
)
def test_however_texts_are_cut_into_calls_and_requests_the_vectors_are_the_same(
    server: ChatServer, open_client: OpenClient, parts: list[list[str]], batch: int
) -> None:
    client = open_client(batch=batch)
    for part in parts:
        np.testing.assert_array_equal(expected(part), client.vectors(part))

    asked = texts_asked(server)
    assert len(set(asked)) == len(asked), "no text is asked for twice, in any run over one store"
    assert max((len(body["input"]) for body in server.requests), default=0) <= 5


def test_vectors_are_put_in_order_by_their_index(
    server: ChatServer, open_client: OpenClient
) -> None:
    def backwards(body: dict[str, Any]) -> Scripted:
        sent = json.loads(embeddings(body).encoded())
        sent["data"].reverse()
        return Scripted(body=json.dumps(sent).encode())

    server.script = backwards

    np.testing.assert_array_equal(expected(TEXTS), open_client().vectors(TEXTS))
    np.testing.assert_array_equal(expected(["a"], 4), open_client(dimensions=4).vectors(["a"]))
    assert server.requests[-1]["dimensions"] == 4


@pytest.mark.parametrize("name", ["infinity", "voyage", "cohere"])
def test_every_passage_has_its_score_in_the_given_order(
    server: ChatServer, open_reranker: OpenClient, name: str
) -> None:
    server.script = lambda body: reranked(
        body, data=json.loads(reranked(body).encoded())["results"], meta={}
    )
    reranker = open_reranker(name=f"{name}/scripted")

    assert reranker.scores("query", PASSAGES) == SCORES
    assert reranker.scores("query", PASSAGES[::-1]) == SCORES[::-1]
    assert len(server.requests) == 1
    assert sorted(server.requests[0]["documents"]) == ["one", "three", "two"]


# --- modes


def test_a_replay_opens_no_socket_and_a_miss_names_the_text(
    open_client: OpenClient, open_reranker: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_client().vectors(TEXTS)
    open_reranker().scores("query", PASSAGES)
    forbid_sockets(monkeypatch)

    np.testing.assert_array_equal(expected(TEXTS), open_client("replay").vectors(TEXTS))
    assert open_reranker("replay").scores("query", PASSAGES) == SCORES
    with pytest.raises(ReplayMissError, match="2 missing, such as that of 'new'"):
        open_client("replay").vectors([TEXTS[0], "new", "newer"])
    with pytest.raises(ReplayMissError, match="1 missing, such as that of 'que'"):
        open_reranker("replay").scores("que", PASSAGES)
    with pytest.raises(ReplayMissError, match="dimensions"):
        open_client("replay", dimensions=4).vectors(TEXTS)
    with pytest.raises(ReplayMissError, match="nothing is recorded at all"):
        open_client("replay", access={"store": None}).vectors(TEXTS)


# --- at the same time


# --- what a server can do wrong


def changed(body: dict[str, Any], change: Callable[[list[Any]], list[Any]]) -> Scripted:
    """An answer whose items are changed: vectors, or scores."""
    sent = json.loads(answer(body).encoded())
    name = "results" if "documents" in body else "data"
    items = sorted(sent[name], key=lambda item: int(item["index"]))
    return Scripted(body=json.dumps({**sent, name: change(items)}).encode())


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    "change",
    [
        lambda items: items[:1],
        lambda items: [{**items[0], "embedding": [0.0] * 8, "relevance_score": None}, items[1]],
        lambda items: [{**items[0], "embedding": [1.0], "relevance_score": "high"}, items[1]],
        lambda items: [
            {**items[0], "embedding": [float("nan")] * 8, "relevance_score": float("nan")},
            items[1],
        ],
    ],
)
def test_numbers_that_are_none_are_asked_for_again_and_then_given_up(
    server: ChatServer,
    open_client: OpenClient,
    open_reranker: OpenClient,
    store: ReplyStore,
    change: Any,
) -> None:
    server.script = lambda body: changed(body, change)
    with pytest.raises(TransientModelError, match="did not answer"):
        open_client().vectors(["a", "b"])
    with pytest.raises(TransientModelError, match="did not answer"):
        open_reranker().scores("query", ["one", "two"])

    assert len(server.requests) == 3 + 3
    assert list(store.entries()) == [], "nothing of it is recorded"


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("reply", [Scripted("oops", status=500), Scripted(drop=True)])
@pytest.mark.parametrize("name", ["openai", "hosted_vllm", "voyage", "mistral"])
def test_one_attempt_is_one_request_with_every_kind_of_client(
    server: ChatServer, open_client: OpenClient, name: str, reply: Scripted
) -> None:
    server.script = lambda _: reply
    with pytest.raises(TransientModelError, match=r"did not answer: .*\(after 3"):
        open_client(name=f"{name}/scripted").vectors(["a"])

    assert len(server.requests) == 3


def test_what_cannot_be_mended_by_asking_again_stops(
    server: ChatServer, open_client: OpenClient, open_reranker: OpenClient
) -> None:
    with pytest.raises(FatalModelError, match="'nobody/scripted' has no known provider"):
        open_client(name="nobody/scripted").vectors(["a"])
    with pytest.raises(FatalModelError, match=r"mistral/scripted cannot be asked: .*dimensions"):
        open_client(name="mistral/scripted", dimensions=4).vectors(["a"])
    with pytest.raises(FatalModelError, match=r"\[\[embedder\]\] api_base must be"):
        open_client(model={"api_base": "ftp://x/v1"})
    assert server.requests == []
    server.script = lambda _: Scripted("8 tokens at most", status=400)
    with pytest.raises(FatalModelError, match=r"longest text, of 117 .*'far too .*max_token"):
        open_client().vectors(["short", "far too long " * 9])
    with pytest.raises(FatalModelError, match=r"longest text.* set \[reranker\] depth"):
        open_reranker().scores("query", ["one", "two"])
    assert len(server.requests) == 2


@pytest.mark.usefixtures("waits")
def test_vectors_of_another_length_are_not_mixed(
    server: ChatServer, open_client: OpenClient
) -> None:
    open_client().vectors(["a"])
    server.script = lambda body: embeddings({**body, "dimensions": 16})

    with pytest.raises(FatalModelError, match=r"vectors of 8 and 16 numbers: .* mode='rerecord'"):
        open_client().vectors(["a", "b"])
    with pytest.raises(TransientModelError, match="of 16 numbers, and dimensions asks for 4"):
        open_client(dimensions=4).vectors(["c"])


# --- what is paid and entered


@pytest.mark.parametrize(
    "caps",
    [
        {"calls": 40},
        pytest.param({"tokens": 3_000}, marks=pytest.mark.slow),
        pytest.param({"dollars": 0.003}, marks=pytest.mark.slow),
    ],
)
def test_no_cap_is_overshot_by_vectors_and_replies_that_are_in_flight_together(
    server: ChatServer, open_client: OpenClient, store: ReplyStore, caps: dict[str, Any]
) -> None:
    draw = random.Random(5)
    guard = threading.Lock()
    billed: list[int] = []

    def script(body: dict[str, Any]) -> Scripted:
        texts = body.get("input") or [message["content"] for message in body["messages"]]
        with guard:
            billed.append(draw.randint(1, sum(len(text.encode()) for text in texts)))
            taken = billed[-1]
        usage = {"prompt_tokens": taken, "total_tokens": taken, "completion_tokens": 0}
        if "messages" in body:
            return Scripted("there", usage=usage, delay=0.02)
        return Scripted(body=embeddings(body, usage=usage).encoded(), delay=0.02)

    server.script = script
    prices = PricesConfig(input=1.0, output=1.0)
    account = Account("mine", BudgetConfig(**caps), prices)
    client = open_client(
        access={"account": account}, model={"concurrency": 8}, price=Price(input=1e-6, output=0)
    )
    model = ModelConfig(name="openai/scripted", api_base=server.api_base, max_tokens=16)
    lm = connect(model, store=store, account=account)

    def replies() -> None:
        map_in_order(lambda number: lm(request(f"question {number}", max_tokens=16)),
                     range(400), workers=8)  # fmt: skip

    def vectors() -> None:
        client.vectors([f"{number} {'words ' * 9}" for number in range(2000)])

    def stopped(work: Any) -> bool:
        with pytest.raises(BudgetError, match="does not allow another call"):
            work()
        return True

    assert map_in_order(stopped, [replies, vectors], workers=2) == [True, True]
    lm.client.close()
    ((name, cap),) = caps.items()
    taken = {"tokens": sum(billed), "dollars": sum(billed) * 1e-6, "calls": len(billed)}[name]
    assert cap * 0.5 < taken <= cap, "used, and not overshot"
    assert getattr(store.spent("mine"), name) == pytest.approx(taken)


@pytest.mark.usefixtures("waits")
def test_what_is_not_counted_or_may_be_billed_is_paid_at_its_upper_bound(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda body: embeddings(body, usage=None)
    open_client(access={"account": Account("mine")}).vectors(["abc", "de"])
    assert store.spent("mine").tokens == 5 + 2 * 8

    server.script = lambda _: Scripted(drop=True)
    with pytest.raises(TransientModelError):
        open_client(access={"account": Account("lost")}).vectors(["xyz"])
    assert (store.spent("lost").calls, store.spent("lost").tokens) == (3, 3 * (3 + 8))


def test_the_ledger_and_the_account_have_what_was_asked_and_reused(
    open_client: OpenClient, open_reranker: OpenClient, store: ReplyStore
) -> None:
    access = {"ledger": Ledger(), "account": Account("mine")}
    open_client(access=access, price=PRICE).vectors(TEXTS)
    open_client("replay", access=access).vectors([*TEXTS[:3], TEXTS[0]])
    price = Price(input=0.5)
    open_reranker(access=access, price=price).scores("query", PASSAGES)
    open_reranker("replay", access=access).scores("query", PASSAGES)

    ledger: Any = access["ledger"]
    assert ledger.steps() == {
        STEP: StepLedger(calls=3, tokens=20, cost=10.0, cached=3, cached_tokens=6, cached_cost=3.0),
        RERANK_STEP: StepLedger(
            calls=1, tokens=9, cost=4.5, cached=1, cached_tokens=9, cached_cost=4.5
        ),
    }
    assert (store.spent("mine").tokens, store.spent("mine").dollars) == (29, 14.5)


def test_search_units_are_what_is_paid_where_they_have_the_price(
    server: ChatServer, open_reranker: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda body: reranked(body, meta={"billed_units": {"search_units": 2}})
    price = rerank_price_of("cohere/rerank-v3.5")
    assert price == Price(input=0.0, unit=0.002)
    reranker = open_reranker(
        name="cohere/scripted", access={"account": Account("mine")}, price=price
    )
    reranker.scores("query", PASSAGES)

    assert store.spent("mine").dollars == 0.004
