"""The tutorial: from an empty folder, in the order of the page, with the outputs that it shows."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import ROOT, Block, blocks, run

PAGE = ROOT / "docs/tutorial.md"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "freshstack_dspy"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("clone")
def test_the_tutorial_shows_what_its_commands_print() -> None:
    with contextlib.ExitStack() as stack:
        port = "8000"
        for block in blocks(PAGE):
            text = block.text.replace(":8000/", f":{port}/")
            if block.word:
                Path(block.word).write_text(text, encoding="utf-8")
            elif block.language == "console":
                for command, shown in calls(text):
                    if command.startswith("python "):
                        port = stack.enter_context(serving(command))
                        continue
                    printed = printed_by(command, block)
                    same = shows(shown, printed)
                    assert same, f"{PAGE.name}:{block.line}: {command} prints\n{printed}"


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


@contextlib.contextmanager
def serving(command: str) -> Iterator[str]:
    """Run the server at a port that is free, and give the port."""
    script = command.split()[1]
    with subprocess.Popen([sys.executable, script, "0"], stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            address = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/v1\n", run.stdout.readline())
            assert address is not None
            yield address[1]
        finally:
            run.kill()


def printed_by(command: str, block: Block) -> str:
    if command.startswith("freshstack "):
        return run(command, block)
    if command.startswith("cd "):
        os.chdir(command.removeprefix("cd "))
        return ""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def shows(shown: str, printed: str) -> bool:
    """Whether it is what was printed: a line `…` is any lines, and `…` in a line the rest of it."""
    parts = re.split(r"^…\n", shown, flags=re.MULTILINE)
    pattern = "(?s:.*)".join(re.escape(part).replace("…", ".*") for part in parts)
    return re.fullmatch(pattern, printed) is not None
