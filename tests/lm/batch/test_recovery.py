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
from freshstack_dspy.lm.batch.jobs import JobFolder
from tests.lm.chat_server import Scripted

from .batch_server import BatchServer
from .batching import TEXTS, OpenWaiting, Provider, Waiting, every_provider


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
    pytest.param("anthropic", "submit", "create", "before", marks=slow),
    pytest.param("anthropic", "submit", "create", "after"),
    pytest.param("anthropic", "status", "content", "after", marks=slow),
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
        ("anthropic", Scripted("late", status=504)),
        ("anthropic", Scripted(body=b"<html>")),
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


@every_provider
def test_a_batch_that_was_never_made_is_made_in_the_end(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    server.before["create"] = lambda: Scripted(drop=True)
    here = waiting(provider)
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError):
        here.submit()
    server.before.clear()
    bring_to_the_end(here)

    assert len(server.made) == 1
    assert [job.step for job in here.batches.folder.jobs()] == ["dropped", "ended"]


@pytest.mark.parametrize("provider", ["azure", "anthropic"])
def test_a_list_that_lags_behind_is_asked_twice(
    server: BatchServer,
    waiting: OpenWaiting,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.after["create"] = lambda: Scripted(drop=True)
    here = waiting(provider)
    here.defer(*TEXTS)
    with pytest.raises(TransientModelError):
        here.submit()
    monkeypatch.setattr(batches, "SETTLING_SECONDS", 0.2)
    empty = b'{"object": "list", "data": [], "has_more": false}'
    server.before["list"] = lambda: Scripted(body=empty) if server.calls["list"] == 1 else None
    bring_to_the_end(here)

    assert server.calls["list"] == 2
    assert len(server.made) == 1


class TestMessageBatches:
    """They hold nothing of ours but the custom ids, which are known only in the end."""

    @pytest.fixture
    def here(self, server: BatchServer, waiting: OpenWaiting) -> Waiting:
        """A submission of three requests that never reached the server."""
        server.before["create"] = lambda: Scripted(drop=True)
        here = waiting("anthropic")
        here.defer(*TEXTS)
        with pytest.raises(TransientModelError):
            here.submit()
        server.before.clear()
        return here

    def test_an_ended_batch_of_others_is_recognised_by_its_custom_ids(
        self, server: BatchServer, here: Waiting
    ) -> None:
        server.add(["x", "y", "z"], looks=1)
        bring_to_the_end(here)

        assert [len(made.requests) for made in server.made] == [3, 3]
        assert here.texts() == {"re: one", "re: two", "re: three"}

    def test_a_batch_of_another_collection_is_no_candidate(
        self, server: BatchServer, here: Waiting
    ) -> None:
        """Its job is recorded in a folder beside this one's."""
        theirs = server.add(["x", "y", "z"])
        (job,) = here.batches.folder.pending()
        update = {"submission": "0" * 16, "step": "underway", "batch_id": theirs.batch_id}
        beside = JobFolder(here.batches.folder.path.with_name("other"))
        beside.save(job.model_copy(update=update | {"keys": ("x", "y", "z")}))
        bring_to_the_end(here)

        assert len(server.made) == 2
        assert here.texts() == {"re: one", "re: two", "re: three"}

    def test_one_open_batch_is_taken_until_it_turns_out_to_be_anothers(
        self, server: BatchServer, here: Waiting
    ) -> None:
        server.add(["x", "y", "z"])
        assert here.submit() == []
        (job,) = here.look()

        assert job.step == "dropped"
        assert job.faults == ("the batch that was taken for it turned out to be another's",)
        assert here.texts() == set()
        bring_to_the_end(here)
        assert here.texts() == {"re: one", "re: two", "re: three"}

    def test_several_open_batches_stop_with_what_to_do(
        self, server: BatchServer, here: Waiting
    ) -> None:
        server.course.looks = 9
        server.add(["x", "y", "z"])
        server.add(["u", "v", "w"])
        (job,) = here.batches.folder.pending()

        with pytest.raises(StoreError, match=f"delete .*{job.submission}.json"):
            here.submit()
        here.batches.folder.record(job).unlink()
        assert len(here.submit()) == 1


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
