"""Calls at the same time: equal ones are one request."""

import asyncio
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from dspy.lm15 import Message, Request, Response, Usage

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.store import ReplyStore

from .asking import ask_cities, request
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
    server.says(Scripted("slow", delay=0.5))
    lm = client_for()
    texts = all_at_once(20, lambda: lm(request()).text)

    assert (texts, len(server.requests)) == (["slow"] * 20, 1)


def test_twenty_equal_asynchronous_calls_at_once_are_one_request(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(Scripted("slow", delay=0.5))
    lm = client_for()

    async def gathered() -> list[Any]:
        return await asyncio.gather(*(lm.acall(request()) for _ in range(20)))

    assert [response.text for response in asyncio.run(gathered())] == ["slow"] * 20
    assert len(server.requests) == 1


def test_equal_calls_at_once_share_a_refusal_too(server: ChatServer, client_for: Connect) -> None:
    server.says(Scripted(None, refusal="no", delay=0.5))
    lm = client_for()

    def status() -> str:
        with pytest.raises(ReplyError) as caught:
            ask_cities(lm)
        return caught.value.status

    assert all_at_once(8, status) == ["refused"] * 8
    assert len(server.requests) == 1


def test_equal_calls_at_once_share_a_failure_and_leave_nothing_behind(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(Scripted("no", status=401, delay=0.5))
    lm = client_for()

    def outcome() -> type[BaseException]:
        with pytest.raises(FatalModelError) as caught:
            lm(request())
        return type(caught.value)

    assert set(all_at_once(8, outcome)) == {FatalModelError}
    assert len(server.requests) == 1
    server.says("now")

    assert lm(request()).text == "now"


def test_a_hundred_different_calls_at_once_are_all_answered_by_their_own_reply(
    server: ChatServer, client_for: Connect
) -> None:
    server.script = lambda body: Scripted(body["messages"][-1]["content"] + "!")
    lm = client_for()
    with warnings.catch_warnings(), ThreadPoolExecutor(16) as pool:
        warnings.simplefilter("error")
        texts = list(pool.map(lambda number: lm(request(str(number))).text, range(100)))

    assert [f"{number}!" for number in range(100)] == texts
    assert len(server.requests) == 100
    assert server.at_once <= 16


def test_an_interrupted_call_does_not_block_the_next_one(store: ReplyStore) -> None:
    class InterruptedOnce:
        calls = 0

        def complete(self, request: Request) -> Response:
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt
            message = Message.assistant("after all")
            return Response(
                id=None, model=request.model, message=message, finish_reason="stop", usage=Usage()
            )

    lm = connect(ModelConfig(name="openai/scripted"), store=store, provider=InterruptedOnce())
    with pytest.raises(KeyboardInterrupt):
        lm(request())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: lm(request()).text).result(timeout=10) == "after all"
