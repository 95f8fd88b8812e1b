"""Calls at the same time: equal ones are one request, and what stops one stops those that wait."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from dspy.lm15 import Request, Response, Usage

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.config import BudgetConfig
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.budget import Account, Spent
from freshstack_dspy.lm.client import RecordedLM

from .asking import Scribe, request
from .chat_server import ChatServer, Scripted
from .conftest import Connect

Result = TypeVar("Result")


def all_at_once(number: int, call: Callable[[], Result]) -> list[Result]:
    """Call in so many threads, which begin together."""
    begin = threading.Barrier(number)

    def together(_: int) -> Result:
        begin.wait(10)
        return call()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(together, range(number)))


def test_twenty_equal_calls_at_once_are_one_request(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(Scripted("slow", delay=0.2))
    lm = client_for()
    texts = all_at_once(20, lambda: lm(request()).text)

    assert (texts, len(server.requests)) == (["slow"] * 20, 1)


def test_equal_calls_at_once_share_a_failure_and_leave_nothing_behind(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(Scripted("no", status=401, delay=0.2))
    lm = client_for()

    def outcome() -> type[BaseException]:
        with pytest.raises(FatalModelError) as caught:
            lm(request())
        return type(caught.value)

    assert set(all_at_once(8, outcome)) == {FatalModelError}
    assert len(server.requests) == 1
    server.says("now")

    assert lm(request()).text == "now"


def test_an_interrupted_call_does_not_block_the_next_one(store: ReplyStore) -> None:
    interruptions = iter([KeyboardInterrupt])

    def interrupt_once() -> None:
        for error in interruptions:
            raise error

    model = ModelConfig(name="openai/scripted")
    lm = connect(model, store=store, provider=Provider(interrupt_once))
    with pytest.raises(KeyboardInterrupt):
        lm(request())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: lm(request()).text).result(timeout=10) == "there"


AT_ONCE = 4


class Watched(ReplyStore):
    """A store that knows when so many have looked at what is spent.

    They look with the budget's lock held: who finds too little left waits before it is let go.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.all_wait = threading.Event()
        self._looks = 0

    def spent(self, account: str) -> Spent:
        found = super().spent(account)
        self._looks += 1
        if self._looks == AT_ONCE:
            self.all_wait.set()
        return found


class Provider(Scribe):
    """It does something before it answers."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__(*["there"] * AT_ONCE, usage=Usage(input_tokens=1, output_tokens=1))
        self._before = before
        self.started = 0

    def complete(self, asked: Request) -> Response:
        self.started += 1
        self._before()
        return super().complete(asked)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(tmp_path / "watched")
    yield store
    store.close()


def _client(store: ReplyStore, provider: Provider) -> RecordedLM:
    """A client with a budget for one request at a time."""
    account = Account(caps=BudgetConfig(tokens=1500))
    model = ModelConfig(name="openai/scripted")
    return connect(model, store=store, provider=provider, account=account)


def _outcomes(lm: RecordedLM) -> list[str]:
    """What becomes of different requests at once."""

    def ask(number: int) -> str:
        try:
            return str(lm(request(str(number), max_tokens=300)).text)
        except FatalModelError as error:
            return str(error)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sorted(pool.map(ask, range(AT_ONCE)))


def test_what_stops_a_request_stops_those_that_wait_too(watched: Watched) -> None:
    """Each would find out for itself that it is of no use to ask."""

    def refuse() -> None:
        assert watched.all_wait.wait(10)
        raise FatalModelError("the key was withdrawn")

    provider = Provider(refuse)

    assert _outcomes(_client(watched, provider)) == ["the key was withdrawn"] * AT_ONCE
    assert provider.started == 1


def test_those_that_wait_when_the_client_is_closed_do_not_ask(watched: Watched) -> None:
    """An interrupted build leaves its threads behind, and they must not go on spending."""

    def close() -> None:
        assert watched.all_wait.wait(10)
        lm.client.close()

    provider = Provider(close)
    lm = _client(watched, provider)

    assert _outcomes(lm) == ["the client was closed"] * (AT_ONCE - 1) + ["there"]
    assert provider.started == 1
    assert len(list(watched.replies())) == 1
