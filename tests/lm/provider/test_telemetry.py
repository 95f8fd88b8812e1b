"""What is sent without being asked for: nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.lm import baseline
from freshstack_dspy.lm.telemetry import describes_the_machine
from tests.lm.chat_server import ChatServer, Scripted

ROOT = Path(__file__).parents[3]
_OUR_SWITCHES = ("LITELLM_", "HF_", "DO_NOT_TRACK")
_ADDRESS = re.compile(r'inet_(?:addr\(|pton\(AF_INET6?, )"([^"]+)"')


def _as_the_baseline(body: dict[str, Any]) -> Scripted:
    """Reply as the embedded model would, in the part of a real one."""
    _, *turns, last = [message["content"] for message in body["messages"]]
    told: list[dict[str, Any]] = [json.loads(turn) for turn in turns]
    demos = list(zip(told[::2], told[1::2], strict=True))
    task = body["response_format"]["json_schema"]["name"]
    return Scripted(json.dumps(baseline.reply(task, json.loads(last), demos)))


def _told(server: ChatServer, folder: Path, models: list[str]) -> Any:
    """What a process opens that builds the sample with no switch set but our own."""
    server.script = _as_the_baseline
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OUR_SWITCHES)
    }
    keys = {f"{name.partition('/')[0].upper()}_API_KEY": "planted-key" for name in models}
    settings = {"folder": str(folder), "api_base": server.api_base, "models": models}
    command = [sys.executable, "-m", "tests.lm.provider.watched_builds", json.dumps(settings)]
    if strace := shutil.which("strace"):
        # An audit hook sees Python's sockets only, and LanceDB is written in Rust.
        command = [strace, "-fqq", "-e", "trace=connect", "-o", f"{folder}/connects", *command]
    done = subprocess.run(
        command, cwd=ROOT, env=environment | keys, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _connected(folder: Path) -> set[str]:
    """The addresses that the process connected to, as the system saw it; empty without strace."""
    trace = folder / "connects"
    return set(_ADDRESS.findall(trace.read_text(encoding="utf-8"))) if trace.exists() else set()


@pytest.mark.slow
def test_a_build_opens_no_socket_but_to_its_model(server: ChatServer, tmp_path: Path) -> None:
    told = _told(server, tmp_path, ["openai/scripted"])

    assert (told["replayed"], told["opened_by_replay"], told["live"]) == (18, 0, [2])
    assert told["hosts"] == ["127.0.0.1"]
    assert _connected(tmp_path) <= {"127.0.0.1"}
    assert {"dspy", "lancedb", "bm25s", "diskcache", "tiktoken"} <= set(told["imported"])
    assert "litellm" not in told["imported"]


@pytest.mark.slow
def test_nor_does_one_through_litellm(server: ChatServer, tmp_path: Path) -> None:
    """A model of a Llama's name, whose tokens LiteLLM counts with a tokenizer from the network."""
    models = ["together_ai/meta-llama/Llama-3-8b-chat-hf", "perplexity/scripted"]
    told = _told(server, tmp_path, models)

    assert (told["live"], told["hosts"]) == ([2, 2], ["127.0.0.1"])
    assert _connected(tmp_path) <= {"127.0.0.1"}
    assert {"litellm", "openai"} <= set(told["imported"])
    assert not [name for sent in server.headers for name in sent if describes_the_machine(name)]


def test_what_describes_the_machine_is_told_from_what_a_provider_needs() -> None:
    names = [
        "X-Stainless-OS",
        "x-stainless-arch",
        "Authorization",
        "x-api-key",
        "anthropic-version",
    ]

    assert [describes_the_machine(name) for name in names] == [True, True, False, False, False]
