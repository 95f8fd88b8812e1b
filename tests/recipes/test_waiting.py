"""A step that waits says so: for whom, since when, and why it asks again."""

import threading
from pathlib import Path

import pytest

from freshstack_dspy import build
from freshstack_dspy.errors import ConfigError, TransientModelError
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.events import CallEvent
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes import session
from freshstack_dspy.recipes.requests import answer_requests
from tests.heard import Heard
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import server, waits

from .test_sending import asking

__all__ = ["server", "waits"]


class Watched(Heard):
    """Also hears what a step waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[tuple[str, str]] = []

    def wait(self, step: str, note: str) -> None:
        self.waited.append((step, note))


@pytest.mark.usefixtures("waits")
def test_a_build_says_for_whom_it_waits_after_the_first_time_out(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_WAIT", 0.1)
    server.says(Scripted("late", delay=30))
    progress, events, lock = Watched(), list[CallEvent](), threading.Lock()

    def note(event: CallEvent) -> None:
        with lock:
            events.append(event)

    config = asking(tmp_path, server, model={"timeout": 0.3, "retries": 1, "concurrency": 1})
    with pytest.raises(TransientModelError, match="3 requests in a row"):
        build(config, progress=progress, callback=note)

    step, first = progress.waited[0]
    assert step in ("nuggets", "sub_questions", "closed_book_answer")
    assert f"without a reply of openai/scripted ({server.api_base})" in first
    assert any("asked again: " in one and "timeout = 0.3 s" in one for _, one in progress.waited)
    begun = events.index(next(one for one in events if one.status == "waiting"))
    assert begun == 0, "before the first call has ended"
    ended = [one for one in events if one.status != "waiting"]
    assert [one.attempts for one in ended] == [2, 2, 2]


def test_requests_are_not_answered_beside_a_build_that_asks_for_the_same(
    server: ChatServer, tmp_path: Path
) -> None:
    config = asking(tmp_path, server)
    with (
        only_writer(config.out, "freshstack build"),
        pytest.raises(ConfigError, match="is being written by freshstack build"),
    ):
        answer_requests(config, NoProgress())
