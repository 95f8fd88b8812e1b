"""What comes from others, made to stop or to fill the program: one line, or a plain result."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from freshstack_dspy.corpus.texts import notebook_text
from freshstack_dspy.errors import SourceError, StoreError
from freshstack_dspy.html_to_markdown import html_to_markdown
from freshstack_dspy.labelling.tasks import blocks_of
from freshstack_dspy.lm.batch.deferred import read_answer
from freshstack_dspy.lm.events import CallEvent, event_log
from freshstack_dspy.measures.run import is_searches
from freshstack_dspy.measures.searches import read_searches
from freshstack_dspy.pages.data import page_csv
from freshstack_dspy.pages.page import Page, Table
from freshstack_dspy.questions.topics import links

DIGITS = "9" * 5000
DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "html",
    [
        f'<ol start="{DIGITS}"><li>one</li></ol>',
        f'<table><tr><td colspan="{DIGITS}">one</td></tr></table>',
        '<table><tr><td colspan="²">one</td></tr></table>',
        f"<h{DIGITS}>one</h{DIGITS}>",
    ],
)
def test_html_with_numbers_that_are_none_keeps_its_text(html: str) -> None:
    assert "one" in html_to_markdown(html)


@pytest.mark.parametrize("level", [2_000_000_000, -1, "2", None, 2.5, [1]])
def test_a_heading_of_a_notebook_has_a_level_of_markdown(level: object) -> None:
    cell = {"cell_type": "heading", "level": level, "source": "Title"}
    data = json.dumps({"worksheets": [{"cells": [cell]}]}).encode()

    assert notebook_text(data) == "# Title"


@pytest.mark.parametrize("path", ["a.py", "a.md"])
def test_a_hostile_text_is_shown_soon_and_whole(path: str) -> None:
    for text in ("\n" * 20_000, "```\n" * 5_000, "((" * 10_000, "`a" * 10_000):
        start = time.monotonic()
        blocks = blocks_of(text, path)

        assert time.monotonic() - start < 10
        assert "".join(piece for block in blocks for _, piece in block.pieces) == text


def test_deep_or_endless_values_in_searches_are_one_line(tmp_path: Path) -> None:
    span = {"traceId": "1", "spanId": "1", "startTimeUnixNano": DIGITS}
    traced = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    for text in (DEEP, DIGITS, f'{{"results": {DEEP}', f'{{"results": {DIGITS}}}', traced):
        path = tmp_path / "a.jsonl"
        path.write_text(text)

        assert is_searches(path) in (True, False)
        with pytest.raises(SourceError):
            read_searches(path)


def test_no_cell_of_a_csv_is_a_formula() -> None:
    page = Page("t", (Table(("a", "b"), [("=1+1", "@x"), ("+1", -2)]),))

    assert page_csv(page).splitlines()[1:] == [" =1+1, @x", " +1,-2"]


def test_a_line_of_replies_with_half_a_surrogate_pair_is_a_fault() -> None:
    answer = read_answer(r'{"custom_id": "\ud800", "content": "x"}')

    assert (answer.custom_id, bool(answer.fault)) == ("no custom_id", True)


def test_a_log_on_a_full_disk_is_named() -> None:
    with event_log(Path("/dev/full")) as log, pytest.raises(StoreError, match="/dev/full"):
        log(
            CallEvent(
                at="", step="", key="", task=None, model="m", cached=False, seconds=0, status="ok"
            )
        )


def test_a_name_that_is_too_long_is_no_link() -> None:
    found = links(f"https://github.com/a/{'b' * 70_000} and https://github.com/a/c")

    assert [link.name for link in found] == ["github.com/a/c"]


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_an_interrupt_at_any_time_ends_the_command_with_130(tmp_path: Path, seconds: float) -> None:
    program = "import sys, time; from freshstack_dspy.cli import main; print('on', flush=True);"
    run = "sys.argv[1:] = ['plan', 'build.toml']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program + run],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        time.sleep(seconds / 10)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)

    assert process.returncode in (130, 1), told  # 1: there is no such file, before the interrupt
    assert "Traceback" not in told


def test_an_interrupt_that_code_swallows_ends_the_command_soon() -> None:
    program = """
import signal, sys, time
import freshstack_dspy.cli as cli
cli._PATIENCE = 0.5
signal.signal(signal.SIGINT, cli._interrupt)
print("on", flush=True)
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)

    assert process.returncode == 130, told
