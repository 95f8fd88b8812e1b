"""The server with a batch API, and requests that wait to be sent to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .batch_server import BatchServer
from .batching import OpenWaiting, Provider, Waiting, echo


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01")
    with BatchServer(echo).running() as running:
        yield running


@pytest.fixture
def waiting(tmp_path: Path, server: BatchServer) -> Iterator[OpenWaiting]:
    """Makes collections, and closes their stores in the end."""
    made: list[Waiting] = []

    def make(provider: Provider = "openai", name: str = "a", **sections: Any) -> Waiting:
        made.append(Waiting(tmp_path / name, server, provider, **sections))
        return made[-1]

    yield make
    for each in made:
        each.store.close()
