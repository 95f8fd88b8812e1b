"""The server and the clients of these tests."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from freshstack_dspy import ModelConfig, ReplyStore, connect
from freshstack_dspy.config import Mode
from freshstack_dspy.errors import TransientModelError
from freshstack_dspy.lm import retry
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.retry import pause

from .chat_server import ChatServer, Scripted


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(lambda _: Scripted("{}")).running() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    store = ReplyStore(tmp_path / "cache")
    yield store
    store.close()


def forbid_sockets(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    patch.setattr(socket, "socket", refuse)
    patch.setattr(socket, "create_connection", refuse)


class Connect(Protocol):
    def __call__(
        self, mode: Mode = "live", *, failed: bool = False, **settings: Any
    ) -> RecordedLM: ...


@pytest.fixture
def client_for(server: ChatServer, store: ReplyStore) -> Iterator[Connect]:
    """Opens clients to the server over one store, as runs of a build do one after the other."""
    opened: list[RecordedLM] = []

    def open_client(mode: Mode = "live", *, failed: bool = False, **settings: Any) -> RecordedLM:
        values = {"name": "openai/scripted", "api_base": server.api_base, **settings}
        lm = connect(ModelConfig.model_validate(values), mode=mode, store=store, failed=failed)
        opened.append(lm)
        return lm

    yield open_client
    for lm in opened:
        lm.client.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, written down instead of waited for."""
    waited: list[float] = []

    def noted(error: TransientModelError, attempts: int) -> float:
        waited.append(pause(error, attempts))
        return 0.0

    monkeypatch.setattr(retry, "pause", noted)
    return waited
