"""A planted key is sent to the provider, and written nowhere."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, freshstack  # noqa: F401  a fixture
from tests.lm.chat_server import ChatServer, Scripted
from tests.recipes.domain import write_domain
from tests.recipes.scripted import SCRIPTS, inputs_of

SECRETS = {
    "environment": "sk-environment-4f9a8b7c6d5e",
    "configuration": "sk-config-1029384756abcdef",
    "address": "pass-word-5566778899",
    "token": "token-66554433",
}


def _honest(body: dict[str, Any]) -> Scripted:
    task = body["response_format"]["json_schema"]["name"]
    inputs = inputs_of([message["content"] for message in body["messages"]])
    return Scripted(json.dumps(SCRIPTS[task](inputs)))


def _echoing(body: dict[str, Any]) -> Scripted:
    """Refuse, and say the key back as careless servers do."""
    basic = base64.b64encode(f"{SECRETS['token']}:".encode()).decode()
    said = f"no access for {basic} or user:{' or '.join(SECRETS.values())}"
    return Scripted(said, status=400)


class _Closing(ChatServer):
    """LiteLLM leaves connections open that are kept alive, which is a warning, and so a failure."""

    protocol = "HTTP/1.0"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with _Closing(_honest).running() as running:
        yield running


def content(path: Path) -> bytes:
    """What is in a file; SQLite may delete its journal meanwhile, as threads of a build end."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


@pytest.mark.parametrize("planted", SECRETS)
def test_a_planted_key_is_in_no_byte_that_any_command_writes(
    planted: str,
    server: ChatServer,
    freshstack: Command,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    model: dict[str, Any] = {"name": "openai/scripted", "api_base": server.api_base}
    if planted == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", SECRETS[planted])
    elif planted == "configuration":
        model["api_key"] = SECRETS[planted]
    else:
        login = f"user:{SECRETS[planted]}" if planted == "address" else SECRETS[planted]
        model["api_base"] = server.api_base.replace("://", f"://{login}@")
    config = write_domain(private, model={**model, "retries": 0})
    written = []

    def run(*words: object, code: int) -> None:
        done = freshstack(*words)
        assert done.code == code, done.err
        written.extend([done.out, done.err])

    server.script = _echoing
    run("build", config, "--log", "failed.jsonl", code=1)
    server.script = _honest
    run("plan", config, code=0)
    run("build", config, "--mode", "defer", code=3)
    run("build", config, "--mode", "rerecord", "--failed", "--log", "calls.jsonl", code=0)
    run("replies", "export", config, "--out", "exported.jsonl", code=0)
    run("replies", "verify", config, code=0)
    run("export", private / "collection", "--out", "official", code=0)
    server.script = _echoing
    run("build", config, "--mode", "rerecord", code=1)

    sent = " ".join(value for headers in server.headers for value in headers.values())
    assert (SECRETS[planted] in sent) == (planted not in ("address", "token"))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != config]
    assert len(files) > 15
    everything = "\n".join(written).encode() + b"".join(map(content, files))
    assert SECRETS[planted].encode() not in everything
    assert base64.b64encode(f"{SECRETS[planted]}:".encode()).rstrip(b"=") not in everything
