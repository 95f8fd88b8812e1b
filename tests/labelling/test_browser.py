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
from tests.collection.small import CONTENTS, PROVENANCE, chunk, judgment, write_small
from tests.labelling.test_server import write_tasks

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
    folder: Path, annotator: str = "ana", target: str = "many"
) -> tuple[subprocess.Popen[str], str]:
    """Start `freshstack label` in a process; give it and the address that it prints."""
    command = [sys.executable, "-m", "freshstack_dspy", "label", target, "--no-browser"]
    process = subprocess.Popen(
        [*command, "--annotator", annotator], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as out:
        return process, out.readline().strip()


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
    write_collection(tmp_path / "many", contents, chunks, PROVENANCE, rejected={})
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
    for one in (process, other):
        one.send_signal(signal.SIGINT)
        assert one.wait() == 0


def test_nuggets_without_an_answer_by_keyboard(page: Any, tmp_path: Path) -> None:
    queries = tuple(one.model_copy(update={"answer": ""}) for one in CONTENTS.queries)
    write_small(tmp_path / "small", replace(CONTENTS, queries=queries))
    ids = ("12", "123")
    write_tasks(tmp_path, *(LabelTask(kind="nuggets", query_id=query_id) for query_id in ids))
    process, address = start(tmp_path, target="tasks.jsonl")
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
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
