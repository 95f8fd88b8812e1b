"""Scores through the client: one request for a text and its passages, recorded and validated."""

import json
import socket
import threading
from typing import Any

import pytest

from freshstack_dspy.errors import FatalModelError, ReplayMissError, TransientModelError
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.prices import RerankPrice, rerank_price_of
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.usage import Ledger, StepLedger
from freshstack_dspy.lm.vectors import RERANK_STEP as STEP
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenReranker
from .numbers_server import answer, reranked, score

PASSAGES = ["one", "two", "three", "two"]
EXPECTED = [score("query", passage) for passage in PASSAGES]


@pytest.mark.parametrize("name", ["infinity", "jina_ai", "voyage", "cohere", "hosted_vllm"])
def test_every_passage_has_its_score_in_the_given_order(
    server: ChatServer, open_reranker: OpenReranker, name: str
) -> None:
    server.script = lambda body: reranked(
        body, data=json.loads(reranked(body).encoded())["results"], meta={}
    )
    found = open_reranker(model={"name": f"{name}/scripted"}).scores("query", PASSAGES)

    assert found == EXPECTED
    assert len(server.requests) == 1
    assert sorted(server.requests[0]["documents"]) == ["one", "three", "two"]


def test_the_order_of_the_passages_makes_no_other_request(
    server: ChatServer, open_reranker: OpenReranker
) -> None:
    open_reranker().scores("query", PASSAGES)

    assert open_reranker().scores("query", PASSAGES[::-1]) == EXPECTED[::-1]
    assert len(server.requests) == 1


def test_no_passages_have_no_scores(server: ChatServer, open_reranker: OpenReranker) -> None:
    assert open_reranker().scores("query", []) == []
    assert server.requests == []


def test_a_replay_opens_no_socket_and_a_miss_names_the_text(
    open_reranker: OpenReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_reranker().scores("query", PASSAGES)
    replay = open_reranker("replay")

    def refuse(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert replay.scores("query", PASSAGES) == EXPECTED
    with pytest.raises(ReplayMissError, match="no recorded scores by infinity/scripted for 'que'"):
        replay.scores("que", PASSAGES)


def test_equal_requests_in_flight_are_one(server: ChatServer, open_reranker: OpenReranker) -> None:
    reranker = open_reranker()
    started = threading.Barrier(6)
    server.script = lambda body: Scripted(body=answer(body).encoded(), delay=0.1)

    def one(_: int) -> list[float]:
        started.wait()
        return reranker.scores("query", PASSAGES)

    assert map_in_order(one, range(6), workers=6) == [EXPECTED] * 6
    assert len(server.requests) == 1


def _with(body: dict[str, Any], results: list[Any]) -> Scripted:
    return reranked(body, results=results)


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([{"index": 0, "relevance_score": 1.0}], "it sent 1 scores for 2 passages"),
        (
            [{"index": 1, "relevance_score": 1.0}, {"index": 1, "relevance_score": 0.5}],
            "the indexes of its scores are not those of the passages",
        ),
        (
            [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": float("nan")}],
            "a score is not finite",
        ),
    ],
)
def test_scores_that_are_none_are_asked_for_again_and_then_given_up(
    server: ChatServer,
    open_reranker: OpenReranker,
    store: ReplyStore,
    results: list[Any],
    said: str,
) -> None:
    server.script = lambda body: _with(body, results)

    with pytest.raises(TransientModelError, match=said):
        open_reranker().scores("query", ["one", "two"])
    assert len(server.requests) == 3
    assert list(store.entries()) == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "refused the key: check INFINITY_API_KEY"),
        (404, r"check \[reranker\] model and api_base"),
        (400, r"2 passages were sent: if they are too many, set \[reranker\] depth"),
    ],
)
def test_what_cannot_be_mended_by_asking_again_stops(
    server: ChatServer, open_reranker: OpenReranker, status: int, said: str
) -> None:
    server.script = lambda _: Scripted(status=status, content="no")

    with pytest.raises(FatalModelError, match=said):
        open_reranker().scores("query", ["one", "two"])
    assert len(server.requests) == 1


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("name", ["infinity", "jina_ai", "voyage", "cohere", "hosted_vllm"])
def test_one_attempt_is_one_request(
    server: ChatServer, open_reranker: OpenReranker, name: str
) -> None:
    server.script = lambda _: Scripted(status=500, content="oops")

    with pytest.raises(TransientModelError, match="HTTP 500"):
        open_reranker(model={"name": f"{name}/scripted"}).scores("query", ["one"])
    assert len(server.requests) == 3


def test_a_provider_without_reranking_is_told_at_once(open_reranker: OpenReranker) -> None:
    with pytest.raises(FatalModelError, match="Unsupported provider: openai"):
        open_reranker(model={"name": "openai/scripted"}).scores("query", ["one"])


def test_scores_are_entered_and_paid(open_reranker: OpenReranker, store: ReplyStore) -> None:
    ledger = Ledger()
    access: dict[str, Any] = {"ledger": ledger, "account": Account("mine")}
    price = RerankPrice(token=0.5, unit=0)
    open_reranker(access=access, price=price).scores("query", PASSAGES)
    open_reranker("replay", access=access).scores("query", PASSAGES)

    assert ledger.steps() == {
        STEP: StepLedger(calls=1, tokens=9, cost=4.5, cached=1, cached_tokens=9, cached_cost=4.5)
    }
    assert (store.spent("mine").tokens, store.spent("mine").dollars) == (9, 4.5)


def test_search_units_are_what_is_paid_where_they_have_the_price(
    server: ChatServer, open_reranker: OpenReranker, store: ReplyStore
) -> None:
    server.script = lambda body: reranked(body, meta={"billed_units": {"search_units": 2}})
    price = rerank_price_of("cohere/rerank-v3.5")
    assert price == RerankPrice(token=0.0, unit=0.002)

    open_reranker(
        model={"name": "cohere/scripted"}, access={"account": Account("mine")}, price=price
    ).scores("query", PASSAGES)

    assert store.spent("mine").dollars == 0.004
