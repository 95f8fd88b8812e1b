"""A build can be killed at any moment, and needs nothing but the files in its folder."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from freshstack_dspy.errors import BudgetError
from freshstack_dspy.recipes.build import build

from .domain import domain, files_of, write_domain
from .scripted import ScriptedProvider

BASELINE = {"name": "extractive/baseline", "concurrency": 2}

_BUILD = """
import sys
from freshstack_dspy.config import load_config
from freshstack_dspy.recipes.build import build
import lancedb, sklearn.feature_extraction.text, freshstack_dspy.lm.baseline

print("ready", flush=True)
print(build(load_config(sys.argv[1])).manifest.content_hash, flush=True)
"""

_WITHOUT_NETWORK = """
import sys

CALLS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}

def refuse(event, arguments):
    if event in CALLS:
        raise SystemExit(f"{event} {arguments!r}")

sys.addaudithook(refuse)
from freshstack_dspy.cli import main

sys.argv = ["freshstack", "build", sys.argv[1], "--mode", "replay"]
main()
"""


@pytest.mark.slow
def test_a_replay_calls_nobody(tmp_path: Path) -> None:
    """In a process of its own, with every lazy import inside: an audit hook cannot be taken off."""
    bundle = tmp_path / "replies.jsonl"
    first = build(domain(tmp_path / "mine", model=BASELINE), replies_file=bundle)
    theirs = write_domain(tmp_path / "theirs", model=BASELINE, cache={"bundles": [str(bundle)]})

    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK, str(theirs)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert f"content {first.manifest.content_hash}" in done.stdout


@pytest.fixture(scope="module")
def seconds(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a build takes that nobody kills."""
    folder = tmp_path_factory.mktemp("timed")
    write_domain(folder, model=BASELINE)
    running = _start(folder)
    begun = time.monotonic()
    running.communicate()
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(3))
def test_a_killed_build_goes_on_where_it_was(tmp_path: Path, seconds: float, round_: int) -> None:
    """SIGKILL at a random moment, then another over what the first left."""
    whole = build(domain(tmp_path / "whole", model=BASELINE))
    config = domain(tmp_path / "killed", model=BASELINE)
    chance = random.Random(round_)

    for _ in range(2):
        running = _start(tmp_path / "killed")
        time.sleep(chance.uniform(0, seconds))
        running.kill()
        running.communicate()
    collection = build(config)

    assert collection.manifest.content_hash == whole.manifest.content_hash
    files, unharmed = files_of(config.out), files_of(tmp_path / "whole/collection")
    assert files.keys() == unharmed.keys()
    for name in files.keys() - {"manifest.json"}:
        assert files[name] == unharmed[name], name


def _start(folder: Path) -> "subprocess.Popen[str]":
    """Start a build in a process, and wait until everything is imported."""
    running = subprocess.Popen(
        [sys.executable, "-c", _BUILD, str(folder / "build.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    return running


def test_a_used_up_budget_stops_cleanly_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    """It says what is done, what is left and how to go on; nothing is asked twice."""
    provider = ScriptedProvider()
    with pytest.raises(BudgetError) as stopped:
        build(domain(tmp_path, budget={"calls": 4}), provider=provider)

    message = str(stopped.value)
    assert message.startswith("[budget] calls = 4 does not allow another call: 4 spent so far")
    assert "Done in this run: nuggets 3 of 3, sub_questions 1 of 3" in message
    assert sum(provider.calls.values()) == 4
    assert not (tmp_path / "collection").exists()

    collection = build(domain(tmp_path, budget={"calls": 100}), provider=provider)

    at_once = ScriptedProvider()
    whole = build(domain(tmp_path / "elsewhere"), provider=at_once)
    assert provider.calls == at_once.calls
    assert collection.manifest.content_hash == whole.manifest.content_hash
