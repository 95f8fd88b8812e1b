"""A build can be killed at any moment, and needs nothing but the files in its folder."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, build, refresh
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.recipes.provenance import export_replies

from .conftest import Built
from .domain import domain, files_of, write_domain
from .scripted import ScriptedProvider

BASELINE = {"name": "extractive/baseline", "concurrency": 2}

_GROW = """
import sys
from pathlib import Path
from freshstack_dspy.config import load_config
from freshstack_dspy.recipes.make import build
from freshstack_dspy.recipes.extend import extend
from freshstack_dspy.recipes.make import refresh
import lancedb, sklearn.feature_extraction.text, freshstack_dspy.baseline

config, what = load_config(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
if what == "extend":
    extend(config.out, [Path(sys.argv[1]).with_name("mine.run")], config)
else:
    {"build": build, "refresh": refresh}[what](config)
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


def start(folder: Path, what: str) -> "subprocess.Popen[str]":
    """Start a build, an extension or a refresh, and wait until everything is imported."""
    running = subprocess.Popen(
        [sys.executable, "-c", _GROW, str(folder / "build.toml"), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    return running


def run_to_the_end(folder: Path, what: str) -> float:
    """How many seconds it takes if nothing kills it."""
    running = start(folder, what)
    begun = time.monotonic()
    running.communicate()
    assert running.returncode == 0
    return time.monotonic() - begun


def killed_at_random(folder: Path, what: str, chance: random.Random, seconds: float) -> None:
    """SIGKILL within so many seconds."""
    running = start(folder, what)
    time.sleep(chance.uniform(0, seconds))
    running.kill()
    running.communicate()


@pytest.mark.slow
def test_a_replay_sends_nothing(tmp_path: Path) -> None:
    """In a process of its own, with every lazy import inside: an audit hook cannot be taken off."""
    bundle = tmp_path / "replies.jsonl"
    config = domain(tmp_path / "mine", model=BASELINE)
    first = build(config)
    export_replies(config, bundle)
    theirs = write_domain(tmp_path / "theirs", model=BASELINE, cache={"bundles": [str(bundle)]})

    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK, str(theirs)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert f"content hash {first.manifest.content_hash}" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(3))
def test_a_killed_build_goes_on_where_it_was(tmp_path: Path, round_: int) -> None:
    """SIGKILL at a random moment, then another over what the first left."""
    domain(tmp_path / "whole", model=BASELINE)
    seconds = run_to_the_end(tmp_path / "whole", "build")
    config = domain(tmp_path / "killed", model=BASELINE)
    chance = random.Random(round_)

    for _ in range(2):
        killed_at_random(tmp_path / "killed", "build", chance, seconds)
    collection = build(config)

    whole = Collection.load(tmp_path / "whole/collection")
    assert collection.manifest.content_hash == whole.manifest.content_hash
    files, unharmed = files_of(config.out), files_of(tmp_path / "whole/collection")
    assert files.keys() == unharmed.keys()
    for name in files.keys() - {"manifest.json"}:
        assert files[name] == unharmed[name], name


def test_a_used_up_budget_stops_cleanly_and_a_larger_one_goes_on(
    usual: Built, tmp_path: Path
) -> None:
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

    assert provider.calls == usual.provider.calls
    assert collection.manifest.content_hash == usual.collection.manifest.content_hash


_HELD = """
import sys
from freshstack_dspy.files import only_writer
held = only_writer(sys.argv[1], "freshstack build")
held.__enter__()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("what", [build, refresh])
def test_a_second_writer_of_a_collection_is_refused_before_it_asks(
    usual: Built, tmp_path: Path, what: Any
) -> None:
    shutil.copytree(usual.folder, tmp_path, dirs_exist_ok=True)
    config, provider = domain(tmp_path, pool={"depth": 2, "top_k": 2}), ScriptedProvider()
    before = files_of(config.out)
    with subprocess.Popen(
        [sys.executable, "-c", _HELD, str(config.out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(ConfigError, match=rf"freshstack build \(process {other.pid} on"):
            what(config, provider=provider)
        other.kill()

    assert not provider.calls
    assert files_of(config.out) == before
