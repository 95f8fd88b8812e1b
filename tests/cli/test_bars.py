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
    assert re.search(r"sub-questions +[━╸ ]+ 3/3 +\d+:\d\d:\d\d +3 \[b\]done", shown)


def test_a_long_note_shortens_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    names = {
        "files": "files",
        "closed_book_answer": "closed-book answers",
        "contamination": "contamination",
        "importance": "nugget importance",
        "table": "index: table",
    }

    with Bars() as bars:
        for step in names:
            bars.start(step, 12345)
            bars.finish(step, "767 to index; skipped: 23 binary, 5 empty, " * 3)

    shown = (
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
    )
    for name in names.values():
        (*_, row) = [line for line in shown if line.startswith(name)]
        assert re.fullmatch(rf"{name} +[━╸ ]+ 12345/12345 \d+:\d\d:\d\d 767 to index; .*… *", row)
        assert len(row) <= 80
