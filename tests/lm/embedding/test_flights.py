"""Equal texts in flight are one request, whatever becomes of it."""

import threading
from typing import Any

import numpy as np

from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenClient
from .numbers_server import answer, texts_asked, vector

TEXTS = [f"text {number}" for number in range(10)]


def expected(texts: list[str]) -> Any:
    return np.array([vector(text) for text in texts], dtype=np.float32)


def test_equal_texts_in_many_threads_are_asked_for_once(
    server: ChatServer, open_client: OpenClient
) -> None:
    client = open_client()
    started = threading.Barrier(8)

    def slow(body: dict[str, Any]) -> Scripted:
        import time

        time.sleep(0.05)
        return answer(body)

    server.script = slow

    def one(turn: int) -> Any:
        started.wait()
        return client.vectors(TEXTS[turn:] + TEXTS[:turn])

    found = map_in_order(one, range(8), workers=8)

    for turn, matrix in enumerate(found):
        np.testing.assert_array_equal(expected(TEXTS[turn:] + TEXTS[:turn]), matrix)
    assert sorted(texts_asked(server)) == TEXTS


def test_who_waited_for_a_thread_that_failed_asks_for_itself(
    server: ChatServer, open_client: OpenClient
) -> None:
    first, second = threading.Event(), threading.Event()

    def script(body: dict[str, Any]) -> Scripted:
        if "poison" in body["input"]:
            first.set()
            second.wait(5)
            return Scripted(status=401, content="no")
        return answer(body)

    server.script = script
    client = open_client(batch=64)
    failures: list[BaseException] = []

    def failing() -> None:
        try:
            client.vectors(["poison", "a"])
        except FatalModelError as error:
            failures.append(error)

    thread = threading.Thread(target=failing)
    thread.start()
    first.wait(5)
    waiting = threading.Timer(0.05, second.set)
    waiting.start()
    found = client.vectors(["a"])
    thread.join()
    waiting.join()

    assert len(failures) == 1
    np.testing.assert_array_equal(expected(["a"]), found)
