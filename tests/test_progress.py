"""Progress: bars on a terminal and in a notebook, one line a step elsewhere, none in a library's use."""

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from freshstack_dspy import build
from freshstack_dspy.progress import NoProgress, Progress, ProgressBars, showing
from tests.heard import Heard
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Make standard error a terminal of 80 columns."""
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return screen


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a cell shows, as it changes; the kernel is one of its interface."""
    shown: list[str] = []

    def update(data: dict[str, str], raw: bool) -> None:
        shown.append(data["text/plain"])

    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display: Any = ModuleType("IPython.display")
    display.display = lambda *_, **__: SimpleNamespace(update=update)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def wait_until(happened: Callable[[], bool]) -> None:
    """A thread draws; it is given ten seconds."""
    end = time.monotonic() + 10
    while not happened() and time.monotonic() < end:
        time.sleep(0.05)
    assert happened()


def steps(progress: Progress) -> None:
    for step, total in (("chunks of [red]a[/]:x:", 2), ("sub_questions", 3)):
        progress.start(step, total)
        for _ in range(total):
            progress.advance(step, "1,234 calls, $12.34")
        progress.finish(step, f"{total} [b]done")


def lines(text: str) -> list[str]:
    return re.sub(r" +\d+\.\d s", " s", text).splitlines()


STEPS = ["chunks of [red]a[/]:x: s  2 [b]done", "sub-questions s  3 [b]done"]


def test_in_a_log_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBars() as bars:
        steps(bars)

    out, err = capsys.readouterr()
    assert out == "", "what a command prints may be read by another program"
    assert lines(err) == STEPS


def test_in_a_log_a_long_step_has_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshstack_dspy.progress._Lines.every", 0.0)

    with ProgressBars() as bars:
        steps(bars)

    assert "sub-questions          … 2/3, 0:00, 0:00 left, 1,234 calls, $12.34" in (
        capsys.readouterr().err
    )


def test_on_a_terminal_parts_time_left_calls_and_cost_fit_in_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = terminal(monkeypatch)
    with ProgressBars() as bars:
        bars.start("closed_book_answer", 2345)
        for _ in range(1234):
            bars.advance("closed_book_answer", "1,234 calls, $12.34")
        wait_until(lambda: "1,234/2,345" in screen.shown)
        steps(bars)

    drawn = re.findall(r"closed-book answers [^\r\n]*", screen.shown)
    wanted = r"closed-book answers  ━+╌+ 1,234/2,345, 0:0\d, 0:0\d left, 1,234 calls, \$12.34"
    assert any(re.fullmatch(wanted, line.rstrip()) for line in drawn)
    assert max(map(len, drawn)) <= 80
    for line in STEPS:  # a name in brackets is text there too
        assert line in lines(screen.shown)


def test_in_a_notebook_the_same_is_shown(notebook: list[str]) -> None:
    with showing(None) as progress:
        progress.start("support", 4)
        progress.advance("support", "1 calls")
        wait_until(lambda: any("1/4" in text for text in notebook))
        progress.finish("support")
        steps(progress)

    assert any(
        re.fullmatch(r"support judgments    ━━╌╌╌╌╌╌ 1/4, 0:0\d, 0:0\d left, 1 calls", text)
        for text in notebook
    )
    assert lines(notebook[-1]) == ["support judgments s", *STEPS]


def test_nothing_is_shown_where_nobody_looks_on(capsys: pytest.CaptureFixture[str]) -> None:
    with showing(None) as progress:
        steps(progress)

    assert capsys.readouterr() == ("", "")
    heard = Heard()
    with showing(heard) as given, showing(False) as none, showing(True) as bars:
        kinds = (type(none), type(bars))
        assert given is heard
    assert kinds == (NoProgress, ProgressBars)


@pytest.mark.parametrize("shown", [True, False, None])
def test_a_build_from_python_shows_its_steps_if_it_is_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shown: bool | None
) -> None:
    build(domain(tmp_path), provider=ScriptedProvider(), progress=shown)

    err = capsys.readouterr().err
    assert (re.search(r"^support judgments +\d+\.\d s +\d+ calls", err, re.M) is not None) == (
        shown is True
    )
