"""A server of numbers and a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy.lm.store import ReplyStore
from tests.lm.chat_server import ChatServer
from tests.lm.numbers_server import answer


@pytest.fixture(scope="session")
def litellm() -> None:
    """Import it before a test is timed: it takes seconds."""
    import litellm  # noqa: F401


@pytest.fixture
def server(litellm: None) -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    store = ReplyStore(tmp_path / "cache")
    yield store
    store.close()
