"""The installed command, as a process: what it imports, how it ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipes.domain import write_domain

from .conftest import BASELINE


def script() -> str:
    """The console script that was installed with this Python."""
    found = shutil.which("freshstack", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("the package is not installed with this Python")
    return found


def run(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([script(), *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_and_the_module_are_the_same(tmp_path: Path) -> None:
    by_name = run("--help", cwd=tmp_path)
    by_module = subprocess.run(
        [sys.executable, "-m", "freshstack_dspy", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert by_name.returncode == 0
    assert by_name.stdout.startswith("Usage: freshstack [OPTIONS] COMMAND")
    assert by_module.stdout == by_name.stdout


def started(*words: str) -> "subprocess.Popen[str]":
    """Start the command so that it hears an interrupt.

    A shell without job control has its background jobs, and so what they start, ignore it; a
    signal that is handled here is no longer ignored there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [script(), *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix", reason="a FIFO makes the build wait where we want it")
def test_an_interrupted_build_says_how_to_go_on(tmp_path: Path) -> None:
    config = write_domain(tmp_path, model=BASELINE)
    questions = tmp_path / "questions.jsonl"
    questions.unlink()
    os.mkfifo(questions)
    building = started("build", str(config))

    with questions.open("w"):  # opens once the build reads, and lets it wait for a line
        building.send_signal(signal.SIGINT)
        _, said = building.communicate(timeout=60)

    assert building.returncode == 130
    assert said == "interrupted; run it again to go on: every reply that came is recorded\n"


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_server_that_says_nothing(tmp_path: Path) -> None:
    """The model's timeout of two minutes is longer than this test has patience."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        config = write_domain(tmp_path, model={"name": "openai/silent", "api_base": address})
        building = started("build", str(config))
        with server.accept()[0]:
            building.send_signal(signal.SIGINT)
            _, said = building.communicate(timeout=60)

    assert building.returncode == 130
    assert said.splitlines()[-1].startswith("interrupted; run it again to go on")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{script()}' --help | true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
