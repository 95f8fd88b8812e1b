"""Deferred requests that are sent from here, or by an engine, over a real server with faults."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tenacity.nap

from freshstack_dspy import BuildConfig, Collection, ReplyStore, build
from freshstack_dspy.errors import (
    BudgetError,
    ConfigError,
    DeferredError,
    FatalModelError,
    TransientModelError,
)
from freshstack_dspy.lm.events import CallEvent
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.requests import answer_requests
from tests.lm.chat_server import ChatServer, Scripted

from .domain import domain
from .scripted import SCRIPTS, ScriptedProvider, inputs_of


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


def in_turn(
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    batches: Iterable[pa.RecordBatch],
    *,
    at_once: int,
) -> Iterator[pa.RecordBatch]:
    """The least of engines."""
    assert at_once >= 1
    return map(function, batches)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(tenacity.nap.sleep_using_event, "__call__", lambda *_: None)
    with ChatServer(answer).running() as running:
        yield running


def asking(folder: Path, server: ChatServer, **sections: Any) -> BuildConfig:
    model = {"api_base": server.api_base, "retries": 4} | sections.pop("model", {})
    return domain(folder, model=model, **sections)


def test_an_engine_builds_what_a_live_build_does_though_requests_fail(
    server: ChatServer, tmp_path: Path
) -> None:
    server.script = thinking
    told: list[CallEvent] = []
    live = build(asking(tmp_path / "live", server), callback=told.append)
    asked_live = len(server.requests)
    server.script = faulty = Faulty()
    events: list[CallEvent] = []
    there = build(asking(tmp_path / "there", server), engine=in_turn, callback=events.append)

    assert there.manifest.content_hash == live.manifest.content_hash
    assert len(faulty.met) == asked_live
    assert set(faulty.met.values()) == {1, 2}
    assert paid(there) == paid(live)
    assert sorted(one.key for one in events) == sorted(one.key for one in told)
    assert all(one.attempts and one.status == "ok" for one in events)


def paid(collection: Collection) -> dict[str, Any]:
    """What the manifest says of each step, but how often it was asked again."""
    return {
        name: account.model_dump(exclude={"reasked"})
        for name, account in collection.manifest.ledger.items()
    }


def test_what_is_refused_fails_as_in_a_live_build_and_is_asked_once_more_where_that_is_wanted(
    server: ChatServer, tmp_path: Path
) -> None:
    def refusing(body: dict[str, Any]) -> Scripted:
        nobody = "Nobody knows" in json.dumps(body) and "nugget" in json.dumps(body)
        return Scripted("no", status=400) if nobody else answer(body)

    server.script = refusing
    live = build(asking(tmp_path / "live", server))
    config = asking(tmp_path / "there", server)
    there = build(config, engine=in_turn)
    asked = len(server.requests)
    server.script = answer
    mended = build(config, mode="rerecord", failed=True, engine=in_turn)

    assert len(live.failures) == len(there.failures) == 1
    assert there.manifest.content_hash == live.manifest.content_hash
    assert paid(there) == paid(live)
    assert not mended.failures
    assert len(server.requests) > asked


@pytest.mark.parametrize("engine", [None, in_turn])
def test_no_cap_is_passed_and_a_higher_one_goes_on(
    server: ChatServer, tmp_path: Path, engine: Any
) -> None:
    """Also where an attempt is lost, which may have been billed."""
    calls, cut = 7, Counter[str]()

    def cutting(body: dict[str, Any]) -> Scripted:
        cut[json.dumps(body)] += 1
        return Scripted(drop=True) if cut[json.dumps(body)] == 1 else answer(body)

    server.script = cutting
    config = asking(tmp_path, server, budget={"calls": calls})
    with pytest.raises(BudgetError, match=f"calls = {calls} does not allow another call: {calls} "):
        build(config, engine=engine)
    sent = len(server.requests)
    more = asking(tmp_path, server, budget={"calls": 100})
    build(more, engine=engine)

    assert sent == calls
    assert set(cut.values()) == {2}, "what was answered is not asked again"
    with closing(ReplyStore(config.cache.path)) as store:
        assert store.spent(config.name).calls == len(server.requests)


def test_an_engine_that_answers_nobody_stops_the_build(server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda _: Scripted("who are you?", status=401)
    with pytest.raises(FatalModelError, match="OPENAI_API_KEY"):
        build(asking(tmp_path / "key", server), engine=in_turn)
    with pytest.raises(TransientModelError, match="gave no answer to"):
        build(asking(tmp_path / "none", server), engine=lambda *_, at_once: map(list, ()))
    with pytest.raises(ConfigError, match="not both"):
        build(asking(tmp_path / "two", server), engine=in_turn, provider=ScriptedProvider())


def test_an_outage_fails_no_request(server: ChatServer, tmp_path: Path) -> None:
    live = build(asking(tmp_path / "live", server))
    config = asking(tmp_path / "there", server)
    with pytest.raises(DeferredError):
        build(config, mode="defer")
    server.script = lambda _: Scripted(body=b"<html>Please log in</html>")
    with pytest.raises(TransientModelError, match="requests in a row"):
        answer_requests(config, NoProgress())
    server.script = answer

    there = None
    while there is None:
        assert not answer_requests(config, NoProgress()).failed
        with suppress(DeferredError):
            there = build(config, mode="defer")

    assert there.manifest.content_hash == live.manifest.content_hash
    assert not there.failures


def test_an_address_that_is_no_url_is_named(server: ChatServer, tmp_path: Path) -> None:
    wrong = asking(tmp_path, server, model={"api_base": "localhost:8000/v1"})

    with pytest.raises(FatalModelError, match=r"\[model\] api_base must be an http or https URL"):
        build(wrong)


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
