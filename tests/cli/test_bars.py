"""Progress: bars on a screen, one line a step elsewhere."""

import io
import re

import pytest

from freshstack_dspy.cli.printing import Bars


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def steps(bars: Bars) -> None:
    with bars:
        for step, total in (("chunks of [red]a[/]:x:", 2), ("sub_questions", 3)):
            bars.start(step, total)
            for _ in range(total):
                bars.advance(step)
            bars.finish(step, f"{total} [b]done")


def test_in_a_log_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    steps(Bars())

    out, err = capsys.readouterr()
    assert out == "", "what a command prints may be read by another program"
    assert re.sub(r" +\d+\.\d s", " s", err).splitlines() == [
        "chunks of [red]a[/]:x: s  2 [b]done",
        "sub-questions s  3 [b]done",
    ]


def test_on_a_screen_each_step_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in brackets is text there too."""
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")

    steps(Bars())

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "chunks of [red]a[/]:x:" in shown
    assert re.search(r"sub-questions +[━╸ ]+ 0/3 +\d+:\d\d:\d\d", shown)
    assert re.search(r"sub-questions +\d\.\d s +3 \[b\]done\r?\n", shown)
