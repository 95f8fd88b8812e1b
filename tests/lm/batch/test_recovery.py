"""Batches whose making was cut off: found again, never made twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from freshstack_dspy.errors import StoreError, TransientModelError
from freshstack_dspy.lm.batch import jobs as batches
from tests.lm.chat_server import Scripted

from .batch_server import BatchServer
from .batching import TEXTS, OpenWaiting, Provider, Waiting


@pytest.fixture(autouse=True)
def _settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a provider to list what it has just made."""
    monkeypatch.setattr(batches, "SETTLING_SECONDS", 0.0)


def killed(folder: Path, command: str, arm: Callable[[Callable[[], None]], None]) -> None:
    """Run a command in a process of its own, which the server kills at a chosen point."""
    process = subprocess.Popen(
        [sys.executable, "-m", "freshstack_dspy", "requests", command, str(folder / "build.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    arm(lambda: os.kill(process.pid, signal.SIGKILL))
    output = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, output


def bring_to_the_end(here: Waiting) -> None:
    """What a user does after a crash: submit again, and ask how it stands."""
    here.submit()
    here.look()


slow = pytest.mark.slow
POINTS = [
    pytest.param("openai", "submit", "upload", "after", marks=slow),
    pytest.param("openai", "submit", "create", "before", marks=slow),
    pytest.param("openai", "submit", "create", "after", marks=slow),
    pytest.param("openai", "status", "content", "after", marks=slow),
    pytest.param("azure", "submit", "create", "after", marks=slow),
    pytest.param("anthropic", "status", "content", "after"),
]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(("provider", "command", "call", "moment"), POINTS)
def test_a_process_that_is_killed_anywhere_pays_once(
    server: BatchServer,
    waiting: OpenWaiting,
    tmp_path: Path,
    provider: Provider,
    command: str,
    call: str,
    moment: Literal["before", "after"],
) -> None:
    here = waiting(provider)
    here.defer(*TEXTS)
    if command == "status":
        here.submit()

    def arm(kill: Callable[[], None]) -> None:
        def strike() -> Scripted:
            kill()
            return Scripted(drop=True)

        getattr(server, moment)[call] = strike

    killed(tmp_path / "a", command, arm)
    server.before.clear()
    server.after.clear()
    bring_to_the_end(here)

    assert len(server.made) == 1
    assert here.texts() == {"re: one", "re: two", "re: three"}
    assert here.store.spent(here.config.name).calls == 3
    assert here.batches.folder.pending() == []


@pytest.mark.parametrize(
    ("provider", "answer"),
    [
        ("openai", Scripted(drop=True)),
        ("azure", Scripted("late", status=504)),
    ],
)
def test_a_batch_whose_answer_was_lost_is_adopted(
    server: BatchServer, waiting: OpenWaiting, provider: Provider, answer: Scripted
) -> None:
    """Also behind those of others: the list comes in pages of two, and newer ones stand before it."""
    server.after["create"] = lambda: answer
    here = waiting(provider)
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError, match="run this again, and it is looked for before"):
        here.submit()
    (cut_off,) = here.batches.folder.pending()
    assert cut_off.step == "creating"
    for number in range(5):
        server.add(["x"] * 4, created_at=time.time() + number, file_id="file-of-others")

    assert here.submit() == []
    (job,) = here.look()

    assert (job.submission, job.batch_id) == (cut_off.submission, "batch_1")
    assert server.calls["create"] == 1
    assert list(here.store.deferred()) == []


def test_a_batch_that_was_never_made_is_made_in_the_end(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    server.before["create"] = lambda: Scripted(drop=True)
    here = waiting()
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError):
        here.submit()
    server.before.clear()
    bring_to_the_end(here)

    assert len(server.made) == 1
    assert [job.step for job in here.batches.folder.jobs()] == ["dropped", "ended"]


def test_a_list_that_lags_behind_is_asked_twice(
    server: BatchServer, waiting: OpenWaiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.after["create"] = lambda: Scripted(drop=True)
    here = waiting("azure")
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError):
        here.submit()
    monkeypatch.setattr(batches, "SETTLING_SECONDS", 0.2)
    empty = b'{"object": "list", "data": [], "has_more": false}'
    server.before["list"] = lambda: Scripted(body=empty) if server.calls["list"] == 1 else None
    bring_to_the_end(here)

    assert server.calls["list"] == 2
    assert len(server.made) == 1


def test_where_the_provider_keeps_no_name_a_lost_batch_stops_with_what_to_do(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    """Nothing is sent again until the user has looked whether it was made."""
    server.after["create"] = lambda: Scripted("late", status=504)
    here = waiting("anthropic")
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError):
        here.submit()
    server.after.clear()
    (job,) = here.batches.folder.pending()
    for work in (here.submit, here.look):
        with pytest.raises(StoreError, match=f"{job.submission}.json"):
            work()
    here.batches.folder.save(job, step="underway", batch_id=server.made[0].batch_id)
    here.look()

    assert server.calls["create"] == 1
    assert here.texts() == {"re: one", "re: two", "re: three"}


def test_an_import_that_was_cut_off_is_finished_and_charged_once(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    """The record still says that the batch is underway when its replies are recorded already."""
    here = waiting()
    here.defer(*TEXTS)
    (job,) = here.submit()
    record = here.batches.folder.path / f"{job.submission}.json"
    before = record.read_bytes()
    here.look()
    spent = here.store.spent(here.config.name)
    record.write_bytes(before)
    (again,) = here.look()

    assert again.step == "ended"
    assert again.report is not None
    assert len(again.report.repeated) == 3
    assert here.store.spent(here.config.name) == spent
    assert again.unanswered == 0
