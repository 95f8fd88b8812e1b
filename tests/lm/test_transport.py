"""Replies over HTTP that never end, are too long, or are compressed to fill the memory."""

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from freshstack_dspy import ModelConfig
from freshstack_dspy.errors import ReplyError, TransientModelError
from freshstack_dspy.lm.engine import provider_for

from .conftest import Connect

CLIENTS = ["openai/scripted", pytest.param("together_ai/scripted", marks=pytest.mark.slow)]
"""DSPy's own client, and LiteLLM."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MIB = 2**20


class Hostile:
    """A server that sends the same bytes to everybody, and notes when a client has gone."""

    def __init__(self, head: bytes, piece: bytes, *, pause: float = 0.0, most: int = 10**9) -> None:
        self.head, self.piece, self.pause, self.most = head, piece, pause, most
        self.gone: list[float] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.api_base = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    @contextmanager
    def running(self) -> Iterator["Hostile"]:
        threading.Thread(target=self._accept, daemon=True).start()
        with self._listening:
            yield self
            self._listening.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                came, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(came,), daemon=True).start()

    def _answer(self, came: socket.socket) -> None:
        with came, suppress(OSError):
            came.recv(MIB)
            came.sendall(self.head)
            for _ in range(self.most):
                came.sendall(self.piece)
                time.sleep(self.pause)
        self.gone.append(time.monotonic())


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


ENDLESS = (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b" " * MIB))
BOMB = gzip.compress(b" " * MIB) * 1024
BOMBS = (HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(BOMB)}\r\n\r\n".encode(), BOMB)
TWICE = gzip.compress(BOMB)
BODIES = {
    "endless": ENDLESS,
    "gzip": BOMBS,
    "gzip, gzip": (
        HEAD + f"Content-Encoding: gzip, gzip\r\nContent-Length: {len(TWICE)}\r\n\r\n".encode(),
        TWICE,
    ),
}

_ASK = """
import json, re, sys
from freshstack_dspy import ModelConfig, connect
from freshstack_dspy.errors import ModelError
from dspy.lm15 import Message, Request
name, base, store = sys.argv[1:]
lm = connect(ModelConfig(name=name, api_base=base, timeout=30, retries=0), store=store)
ask = Request(model=name, messages=(Message.user("a"),))
lm.client.retries._make()  # all is imported, and its memory not measured
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = most()
try:
    lm(ask)
except ModelError as error:
    why = str(error)
print(json.dumps([why, (most() - before) // 1024]))
"""


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_read_as_far_as_any_reply_can_be(name: str, body: str, tmp_path: Any) -> None:
    with Hostile(*BODIES[body], most=8192 if body == "endless" else 1).running() as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _ASK, name, server.api_base, str(tmp_path)],
            capture_output=True,
            check=True,
            timeout=120,
        )
    why, mebibytes = json.loads(done.stdout)
    print(name, body, mebibytes, "MiB")  # noqa: T201 - for who runs it with -s

    assert "did not answer" in why
    assert mebibytes < 300


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((b"", b"", 60.0), id="silent"),
        pytest.param((HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.05), id="drips"),
        pytest.param((*ENDLESS, 0.2), id="endless"),
    ],
)
def test_a_request_that_is_given_up_is_closed_at_the_deadline(
    client_for: Connect, name: str, answer: tuple[bytes, bytes, float]
) -> None:
    head, piece, pause = answer
    with Hostile(head, piece, pause=min(pause, 1.0) if head else 0.5).running() as server:
        lm = client_for(name=name, api_base=server.api_base, timeout=1.0, retries=0)
        provider_for(ModelConfig(name=name))  # what it imports takes longer than this
        begun = time.monotonic()
        with pytest.raises((ReplyError, TransientModelError), match="did not answer"):
            lm("hello")
        waited = time.monotonic() - begun
        if head:  # who has sent nothing does not see that nobody listens
            while not server.gone and time.monotonic() < begun + 5:
                time.sleep(0.05)
            assert server.gone

    assert waited < 3


def test_an_error_is_told_while_another_thread_imports_the_openai_package(
    client_for: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first invalid reply has it imported; it is in `sys.modules` before it is done."""
    monkeypatch.setitem(sys.modules, "openai", type(sys)("openai"))
    with (
        Hostile(
            b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\n", b"oops", most=1
        ).running() as one,
        pytest.raises(ReplyError, match="did not answer: oops"),
    ):
        client_for(api_base=one.api_base, retries=0)("hello")
