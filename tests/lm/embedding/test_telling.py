"""What a client tells of its requests: ledger, tokens, events and progress."""

import pytest

from freshstack_dspy.lm.events import CallEvent
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.usage import Ledger, StepLedger
from freshstack_dspy.lm.vectors import STEP
from tests.lm.chat_server import ChatServer

from .conftest import OpenClient
from .numbers_server import embeddings

TEXTS = [f"text {number}" for number in range(10)]


def test_the_ledger_has_requests_tokens_and_what_was_served(
    open_client: OpenClient,
) -> None:
    ledger = Ledger()
    price = Price(input=0.5, output=0)
    open_client(access={"ledger": ledger}, price=price).vectors(TEXTS)
    open_client("replay", access={"ledger": ledger}).vectors([*TEXTS[:3], TEXTS[0]])

    assert ledger.steps() == {
        STEP: StepLedger(calls=3, tokens=20, cost=10.0, cached=3, cached_tokens=6, cached_cost=3.0)
    }


def test_tokens_of_a_request_are_divided_by_length_and_add_up(
    server: ChatServer, open_client: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda body: embeddings(body, usage={"prompt_tokens": 7, "total_tokens": 7})
    client = open_client()
    texts = ["a", "bb", "cccc"]
    client.vectors(texts)

    figures = [client.recorded(client.ask_of(text).key) for text in texts]
    assert [one and one.tokens for one in figures] == [1, 2, 4]


def test_tokens_that_are_not_counted_are_estimated_and_said(
    server: ChatServer, open_client: OpenClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.script = lambda body: embeddings(body, usage=None)
    client = open_client()
    client.vectors(TEXTS)

    assert [record.getMessage() for record in caplog.records] == [
        "openai/scripted does not count its tokens: they are estimated"
    ]
    figures = client.recorded(client.ask_of("text 1").key)
    assert figures is not None
    assert (figures.tokens, figures.counted) == (3, False)


def test_every_request_is_told_of(open_client: OpenClient) -> None:
    events: list[CallEvent] = []
    open_client(access={"callback": events.append}, price=Price(input=1, output=0)).vectors(TEXTS)

    assert sorted((event.input_tokens, event.cost) for event in events) == [
        (4, 4.0),
        (8, 8.0),
        (8, 8.0),
    ]
    assert {(event.step, event.task, event.status) for event in events} == {
        (STEP, "embedding", "ok")
    }


def test_progress_ends_at_one_and_never_goes_back(open_client: OpenClient) -> None:
    told: list[float] = []
    open_client().vectors(TEXTS[:5])
    open_client().vectors(TEXTS, progress=told.append)

    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.5, 1.0)
