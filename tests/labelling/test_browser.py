"""The page in a real browser: labelling by keyboard, evidence by mouse, a server that is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.records import LabelTask
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, chunk, judgment, write_small
from tests.labelling.test_server import pair, write_tasks

CHROMIUM = Path("/usr/bin/chromium")
SCRIPT = "<script>document.title = 'owned'</script> <img src=x onerror=alert(1)> \u202eé word"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium"),
]


@pytest.fixture
def page() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def start(
    folder: Path, annotator: str | None = "ana", target: str = "tasks.jsonl", *more: str
) -> tuple[subprocess.Popen[str], str]:
    """Start `freshstack label` in a process; give it and the address that it prints."""
    command = [sys.executable, "-m", "freshstack_dspy", "label", target, "--no-browser", *more]
    command += ["--annotator", annotator] if annotator else []
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        return process, out.readline().strip()


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait()


def labels(folder: Path, annotator: str = "ana") -> list[dict[str, Any]]:
    lines = (folder / f"labels-{annotator}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def visit(page: Any, address: str) -> None:
    page.goto(address)
    page.locator("#grades button").first.wait_for()


def press(page: Any, done: int, key: str) -> None:
    page.keyboard.press(key)
    page.locator("#count", has_text=f"· {done} labelled").wait_for()


def test_forty_labels_and_a_killed_server(page: Any, tmp_path: Path) -> None:
    chunks = [chunk(f"docs/{number}.md_0_{len(SCRIPT)}", SCRIPT) for number in range(42)]
    judged = tuple(judgment("12_0", one.chunk_id, 1) for one in chunks)
    contents = replace(CONTENTS, judgments=judged, pool=(), failures=())
    write_collection(tmp_path / "small", contents, chunks, PROVENANCE, rejected={})
    write_tasks(tmp_path, *(pair("12_0", one.chunk_id) for one in chunks))
    process, address = start(tmp_path)
    other, elsewhere = start(tmp_path, "bo")
    visit(page, address)
    for number in range(20):
        press(page, number + 1, str(number % 2))
    assert page.text_content("#text-0") == SCRIPT
    assert page.title() == "freshstack label"

    page.locator("#text-0").click(click_count=3)
    page.locator("#evidence li").wait_for()
    press(page, 21, "1")
    assert labels(tmp_path)[-1]["evidence"] == [[0, len(SCRIPT.encode())]]
    press(page, 20, "u")
    assert len(labels(tmp_path)) == 20

    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    page.keyboard.press("1")
    page.get_by_text("The server does not answer").wait_for()
    process, address = start(tmp_path)
    visit(page, address)
    for key in ("n", "1", "Shift+Enter", "0", "Enter"):
        page.keyboard.press(key)
    for number in range(20, 40):
        press(page, number + 1, str(number % 2))
    assert [label["label"] for label in labels(tmp_path)] == [0, 1] * 20
    assert [label["note"] for label in labels(tmp_path)[19:22]] == ["", "1\n0", ""]

    file = tmp_path / "labels-ana.jsonl"
    file.unlink()
    page.keyboard.press("1")
    page.get_by_text("was changed, replaced or removed by another program").wait_for()
    page.locator("#count", has_text="· ? labelled").wait_for()
    assert not file.exists()
    Path(f"{file}.before").replace(file)
    press(page, 41, "1")
    assert len(labels(tmp_path)) == 41

    visit(page, elsewhere)
    press(page, 1, "0")
    assert (len(labels(tmp_path)), len(labels(tmp_path, "bo"))) == (41, 1)
    assert [stop(process), stop(other)] == [0, 0]


def test_nuggets_without_an_answer_by_keyboard(page: Any, tmp_path: Path) -> None:
    queries = tuple(one.model_copy(update={"answer": ""}) for one in CONTENTS.queries)
    write_small(tmp_path / "small", replace(CONTENTS, queries=queries))
    ids = ("12", "123")
    write_tasks(tmp_path, *(LabelTask(kind="nuggets", query_id=query_id) for query_id in ids))
    process, address = start(tmp_path)
    visit(page, address)

    assert page.locator("#texts h2").all_inner_texts() == ["Passage 1: docs/x", "Passage 2: docs/x"]
    assert "A passage that it is from says it." in page.inner_text("#meanings")
    assert page.locator(".row-of").all_inner_texts() == ["from passage 1, 2", "from passage 2"]
    for key in ("e", "End", "!", "Enter", "y", "y"):
        page.keyboard.press(key)
    press(page, 1, "Enter")
    page.locator("#texts h2").nth(1).wait_for(state="detached")
    page.keyboard.press("y")
    press(page, 2, "Enter")

    texts = [one["text"] for one in labels(tmp_path)[0]["nuggets"]]
    assert texts == ["fact 12_0!", "fact 12_1"]
    assert stop(process) == 0


def test_a_report_is_marked_by_keyboard_and_mouse(page: Any, tmp_path: Path) -> None:
    """Places are in characters, of which an emoji is one."""
    text = "😀 It runs. Call <b>it</b> twice! " + "Then\nwait. " * 40 + "So it ends."
    write_small(tmp_path / "small")
    ids = {"kind": "report", "query_id": "12", "run_id": "r", "answer": text}
    write_tasks(tmp_path, *(LabelTask(**ids, nugget_id=f"12_{number}") for number in range(2)))
    process, address = start(tmp_path)
    visit(page, address)

    page.keyboard.press("1")
    page.locator("#alert", has_text="Mark the words").wait_for()
    for key in ("j", "j", "m", "k", "m", "m"):  # the second sentence, and not the first
        page.keyboard.press(key)
    page.locator("#evidence li").wait_for()
    press(page, 1, "1")
    page.locator("#of-report button[aria-pressed=true]", has_text="2").wait_for()
    page.locator("#text-0").click(click_count=3, position={"x": 40, "y": 8})  # the first line
    page.locator("#evidence li").wait_for()
    press(page, 2, "1")
    [first, second] = labels(tmp_path)
    assert first["marked"] == ["Call <b>it</b> twice!"]
    assert first["evidence"] == [[11, 32]]
    assert second["marked"] == [text.splitlines()[0]]

    page.locator("#of-report button").first.click()
    page.locator("#evidence li", has_text="Call").wait_for()
    for _ in range(83):
        page.keyboard.press("j")
    assert page.evaluate("document.querySelector('#reading').scrollTop") > 0
    page.keyboard.press("m")
    page.locator("#evidence li", has_text="So it ends.").wait_for()
    page.keyboard.press("0")
    page.locator("#status", has_text="Saved: 0 no").wait_for()
    *_, changed, no = labels(tmp_path)
    assert changed["marked"] == ["Call <b>it</b> twice!", "So it ends."]
    assert (no["label"], no["evidence"], no["nugget_id"]) == (0, [], "12_0")
    assert stop(process) == 0


def test_judgments_are_looked_at_and_corrected_by_keyboard(page: Any, tmp_path: Path) -> None:
    """The judge says that the first chunk, whose text and path are hostile, supports 12_0."""
    hostile = chunk(f"docs/{SCRIPT.replace('/', '')}_0_{len(SCRIPT.encode())}", SCRIPT)
    told = {"reason": SCRIPT, "evidence": ((0, 8),)}
    first = judgment("12_0", hostile.chunk_id, 1).model_copy(update=told)
    judged = (first, *(one for one in CONTENTS.judgments if one.nugget_id != "12_0"))
    contents = replace(CONTENTS, judgments=judged, pool=(), failures=())
    write_collection(tmp_path / "small", contents, [hostile, *CHUNKS], PROVENANCE, rejected={})
    process, address = start(tmp_path, "ana", "small")
    page.goto(address)
    status, count = page.locator("#status"), page.locator("#count")

    count.get_by_text("1 of 7").wait_for()
    assert page.text_content("#text-0") == SCRIPT
    said = [page.text_content(f".said {part}") for part in ("b", "p", "li")]
    assert said == ["Judge: 1 support", SCRIPT, "<script>"]
    assert "onerror=alert(1)>" in page.text_content("#pairs")
    assert page.title() == "freshstack label"
    page.keyboard.press("0")  # it is only looked at
    moves = [("q", 4), ("q", 7), ("Q", 4), ("ArrowLeft", 3), ("ArrowLeft", 2), ("ArrowLeft", 1)]
    for key, place in moves:
        page.keyboard.press(key)
        count.get_by_text(f"{place} of 7").wait_for()
    assert not (tmp_path / "labels-ana.jsonl").exists()

    page.keyboard.press("e")
    status.get_by_text("Give your label").wait_for()
    for key in ("n", "o", "Enter", "0"):
        page.keyboard.press(key)
    status.get_by_text("Saved: 0 no support").wait_for()
    assert page.text_content(".said.other") == "ana: 0 no supporto"
    [label] = labels(tmp_path)
    assert (label["label"], label["note"], label["stratum"]) == (0, "o", None)

    page.locator("#filter-disputed").check()
    count.get_by_text("1 of 1").wait_for()
    status.get_by_text("labels of people: 1").wait_for()
    page.keyboard.press("u")
    count.get_by_text("No judgment is so").wait_for()
    assert labels(tmp_path) == []
    page.locator("#filter-disputed").uncheck()
    page.keyboard.press("f")
    page.keyboard.type("123\n")
    count.get_by_text("1 of 3").wait_for()
    page.locator("#pairs").focus()
    page.keyboard.press("End")
    count.get_by_text("3 of 3").wait_for()
    assert page.locator(".said b").inner_text() == "Judge: no label (refused)"
    page.reload()
    count.get_by_text("3 of 3").wait_for()
    assert stop(process) == 0
