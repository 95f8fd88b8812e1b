"""The server with a batch API, and requests that wait to be sent to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .batch_server import BatchServer
from .batching import OpenWaiting, echo, opened


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01")
    with BatchServer(echo).running() as running:
        yield running


@pytest.fixture
def waiting(tmp_path: Path, server: BatchServer) -> Iterator[OpenWaiting]:
    with opened(tmp_path, server) as make:
        yield make
