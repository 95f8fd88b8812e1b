"""Retries, waits, and how many requests may be in flight."""

import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from freshstack_dspy import ModelConfig, ReplyStore
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.retry import Retries, Throttle
from freshstack_dspy.lm.workers import map_in_order

from .asking import Scribe, request
from .chat_server import ChatServer, Scripted
from .conftest import Connect


def test_a_rate_limit_is_waited_out_for_as_long_as_the_server_asks(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    slow_down = Scripted("slow down", status=429, headers={"Retry-After": "0.5"})
    server.says(slow_down, "there")

    assert client_for()(request()).text == "there"
    assert (waits, len(server.requests)) == ([0.5], 2)


def test_a_provider_that_asks_to_wait_for_an_hour_stops_the_build(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("tomorrow", status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(FatalModelError, match=r"asks to wait for 3,600 s: run this again then"):
        client_for()(request())

    assert (waits, len(server.requests)) == ([], 1)


def test_one_request_that_is_never_answered_is_a_failure_of_its_own(
    server: ChatServer, store: ReplyStore, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("oops", status=500))
    with pytest.raises(
        ReplyError, match=r"did not answer: .*oops.* \(after 3 attempts\)"
    ) as caught:
        client_for(retries=2)(request())

    (recorded,) = store.replies()
    assert (caught.value.status, caught.value.call_id) == ("failed", recorded.key)
    assert (len(server.requests), len(waits)) == (3, 2)
    assert (recorded.status, recorded.cost) == ("failed", None)


def test_three_unanswered_requests_in_a_row_stop_the_build(
    client_for: Connect, waits: list[float]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    lm = client_for(api_base=closed, retries=1)
    outcomes = []
    for number in range(3):
        with pytest.raises(ModelError) as caught:
            lm(request(str(number)))
        outcomes.append(type(caught.value))

    assert [ReplyError, ReplyError, TransientModelError] == outcomes
    assert "3 requests in a row: the build stops here" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_refuses_everything_stops_the_build(
    server: ChatServer, client_for: Connect
) -> None:
    """A wrong setting would otherwise make a failure of every query."""
    server.says(Scripted("response_format is not supported", status=400))
    lm = client_for()
    outcomes = []
    for number in range(3):
        with pytest.raises(ModelError) as caught:
            lm(request(str(number)))
        outcomes.append(type(caught.value))

    assert [ReplyError, ReplyError, FatalModelError] == outcomes
    assert 'set structured = "none"' in str(caught.value)


def one(throttle: Throttle, outcome: str, retry_after: float | None = None) -> None:
    """One request from its beginning to its end."""
    with throttle.slot() as window:
        throttle.succeeded(window) if outcome == "ok" else throttle.slowed(window, retry_after)


def test_a_rate_limit_halves_the_limit_to_no_less_than_one() -> None:
    throttle = Throttle(16)
    limits = []
    for _ in range(6):
        one(throttle, "429")
        limits.append(throttle.limit)

    assert limits == [8, 4, 2, 1, 1, 1]


def test_the_rejections_of_one_burst_count_once() -> None:
    """All began before the first was rejected, so that the rest say nothing new."""
    throttle = Throttle(16)
    begun = threading.Barrier(16)

    def rejected(_: int) -> None:
        with throttle.slot() as window:
            begun.wait()
            throttle.slowed(window, None)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(rejected, range(16)))

    assert throttle.limit == 8


def test_as_many_successes_as_the_limit_raise_it_by_one() -> None:
    throttle = Throttle(8)
    one(throttle, "429")
    limits = []
    for _ in range(4 + 5 + 6 + 7 + 3):
        one(throttle, "ok")
        limits.append(throttle.limit)

    assert limits == [4] * 3 + [5] * 5 + [6] * 6 + [7] * 7 + [8] * 4


def test_nothing_begins_before_the_time_that_the_server_named() -> None:
    times = iter([1000.0, 1000.0, 1000.0, 1006.0, 1007.0])
    throttle = Throttle(4, lambda: next(times))
    one(throttle, "429", 7.0)

    assert [throttle.pause() for _ in range(3)] == [7.0, 1.0, 0.0]


def test_who_waits_is_let_through_when_all_is_over() -> None:
    throttle = Throttle(1)
    with throttle.slot():
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(one, throttle, "ok") for _ in range(8)]
            throttle.open(to_all=True)
            for done in waiting:
                done.result()
        throttle.open(to_all=False)

        assert throttle.pause() is None


def test_an_interrupt_gets_through_to_who_waits() -> None:
    throttle = Throttle(1)
    main = threading.main_thread().ident
    assert main is not None
    interrupt = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    # A shell without job control has its background jobs ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with throttle.slot():
            interrupt.start()
            with pytest.raises(KeyboardInterrupt), throttle.slot():
                pass
        interrupt.join()
    finally:
        signal.signal(signal.SIGINT, before)

    assert throttle.pause() == 0


class Busy:
    """A server that bears so many requests at once, and what it has seen."""

    def __init__(self, bears: int) -> None:
        self.bears = bears
        self.open = 0
        self.most: list[int] = []
        self.rejected = 0
        self._lock = threading.Lock()
        self._tick = threading.Event()

    def __call__(self, _: dict[str, Any]) -> Scripted:
        with self._lock:
            self.open += 1
            self.most.append(self.open)
            too_many = self.open > self.bears
            self.rejected += too_many
        self._tick.wait(0.03)  # on a busy machine too, requests overlap
        with self._lock:
            self.open -= 1
        return Scripted("too many", status=429) if too_many else Scripted("there")


@pytest.mark.usefixtures("waits")
def test_a_server_that_bears_less_is_asked_less_and_more_again_when_it_bears_more(
    server: ChatServer, client_for: Connect
) -> None:
    server.script = busy = Busy(bears=3)
    lm = client_for(concurrency=16)

    def answered(numbers: range) -> list[str | None]:
        return map_in_order(lambda number: lm(request(str(number))).text, numbers, workers=16)

    assert answered(range(80)) == ["there"] * 80
    assert max(busy.most[-30:]) < max(busy.most)

    rejected_by_then, busy.bears = busy.rejected, 16
    answered(range(80, 200))

    assert busy.rejected == rejected_by_then
    assert max(busy.most[-30:]) > 3


@pytest.mark.usefixtures("waits")
def test_who_waits_for_the_budget_holds_no_place_in_flight() -> None:
    """The budget may wait for requests that hold their share of it and wait for a place."""
    provider = Scribe(None, "there", "there")
    retries = Retries(ModelConfig(name="openai/scripted", concurrency=1), lambda: provider)

    def wait_for_another() -> None:
        another = threading.Thread(target=retries.complete, args=(request("b"),), daemon=True)
        another.start()
        another.join(10)
        assert not another.is_alive()

    assert retries.complete(request("a"), wait_for_another)[1] == 2
    assert provider.asked == ["a", "b", "a"]


@pytest.mark.parametrize(
    "name", ["openai/scripted", pytest.param("together_ai/scripted", marks=pytest.mark.slow)]
)
def test_a_reply_that_drips_for_longer_than_the_timeout_is_asked_for_again(
    server: ChatServer, client_for: Connect, waits: list[float], name: str
) -> None:
    client = client_for(name=name, timeout=1.0)
    server.says(Scripted("slow", drip=0.02), "there")

    assert client(" hello") == ["there"]
    assert (len(server.requests), len(waits)) == (2, 1)


_FORKED = """
import os
from freshstack_dspy.lm.transport import answer_within
answer_within(5, int)
child = os.fork()
if not child:
    os._exit(answer_within(5, lambda: 7))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_process_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKED], check=True)
