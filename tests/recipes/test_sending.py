"""Builds and deferred requests that are answered by a real server with faults."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, ReplyStore, build
from freshstack_dspy.errors import (
    BudgetError,
    DeferredError,
    FatalModelError,
)
from freshstack_dspy.lm import retry
from freshstack_dspy.lm.events import CallEvent
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.requests import answer_requests
from tests.lm.chat_server import ChatServer, Scripted

from .domain import domain
from .scripted import SCRIPTS, inputs_of


def answer(body: dict[str, Any]) -> Scripted:
    """What the script of these tests answers."""
    task = body["response_format"]["json_schema"]["name"]
    inputs = inputs_of([message["content"] for message in body["messages"]])
    return Scripted(json.dumps(SCRIPTS[task](inputs)))


def thinking(body: dict[str, Any]) -> Scripted:
    """Answers one request in three only when it is sent back."""
    asked_again = len(body["messages"]) > 2
    aloud = sum(json.dumps(body).encode()) % 3 == 0
    return Scripted("Let me think.") if aloud and not asked_again else answer(body)


class Faulty:
    """Meets every other new request with a fault first."""

    faults = (
        Scripted("down", status=500),
        Scripted("later", status=429, headers={"Retry-After": "0"}),
        Scripted(drop=True),
        Scripted(body=b'{"choices": [{'),
    )

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Scripted:
        text = json.dumps(body, sort_keys=True)
        with self._lock:
            self.met[text] += 1
            if self.met[text] == 1 and len(self.met) % 2 == 0:
                return self.faults[len(self.met) // 2 % len(self.faults)]
        return thinking(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(retry, "pause", lambda *_: 0.0)
    with ChatServer(answer).running() as running:
        yield running


def asking(folder: Path, server: ChatServer, **sections: Any) -> BuildConfig:
    model = {"api_base": server.api_base, "retries": 4} | sections.pop("model", {})
    return domain(folder, model=model, **sections)


def deferred(config: BuildConfig, callback: Any = None) -> Collection:
    """Build by rounds of deferred requests that are answered from here."""
    while True:
        with suppress(DeferredError):
            return build(config, mode="defer")
        assert not answer_requests(config, NoProgress(), callback).failed


def test_deferred_requests_make_what_a_live_build_does_though_requests_fail(
    server: ChatServer, tmp_path: Path
) -> None:
    server.script = thinking
    told: list[CallEvent] = []
    live = build(asking(tmp_path / "live", server), callback=told.append)
    asked_live = len(server.requests)
    server.script = faulty = Faulty()
    events: list[CallEvent] = []
    later = deferred(asking(tmp_path / "later", server), events.append)

    assert later.manifest.content_hash == live.manifest.content_hash
    assert len(faulty.met) == asked_live
    assert set(faulty.met.values()) == {1, 2}
    assert sorted(event.key for event in events) == sorted(event.key for event in told)
    assert all(event.attempts and event.status == "ok" for event in events)


def test_no_cap_is_passed_and_a_higher_one_goes_on(server: ChatServer, tmp_path: Path) -> None:
    """Also where an attempt is lost, which may have been billed."""
    calls, cut = 7, Counter[str]()

    def cutting(body: dict[str, Any]) -> Scripted:
        cut[json.dumps(body)] += 1
        return Scripted(drop=True) if cut[json.dumps(body)] == 1 else answer(body)

    server.script = cutting
    config = asking(tmp_path, server, budget={"calls": calls})
    with pytest.raises(BudgetError, match=f"calls = {calls} does not allow another call: {calls} "):
        build(config)
    sent = len(server.requests)
    more = asking(tmp_path, server, budget={"calls": 100})
    build(more)

    assert sent == calls
    assert set(cut.values()) == {2}, "what was answered is not asked again"
    with closing(ReplyStore(config.cache.path)) as store:
        assert store.spent(config.name).calls == len(server.requests)


def test_where_nobody_is_there_a_first_build_stops_before_any_work(
    server: ChatServer, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    nowhere = asking(tmp_path, server, model={"api_base": f"http://127.0.0.1:{port}/v1"})

    with pytest.raises(FatalModelError, match=f"nobody answers at http://127.0.0.1:{port}/v1"):
        build(nowhere)
    assert not Path(nowhere.index.path).exists()
    with ChatServer(answer).running() as gone:
        recorded = asking(tmp_path / "recorded", gone)
        build(recorded)
    assert build(recorded.model_copy(update={"out": tmp_path / "again"}))
