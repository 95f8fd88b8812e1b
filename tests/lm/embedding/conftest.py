"""The server and the doors of these tests."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from freshstack_dspy.config import Mode
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.door import EmbeddingDoor
from freshstack_dspy.lm.embedding.model import HostedModel
from freshstack_dspy.lm.embedding.rerank_door import RerankDoor
from freshstack_dspy.lm.replies.store import ReplyStore
from tests.lm.chat_server import ChatServer

from .numbers_server import answer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


class OpenDoor(Protocol):
    def __call__(
        self,
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> EmbeddingDoor: ...


class OpenReranker(Protocol):
    def __call__(
        self,
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> RerankDoor: ...


@pytest.fixture
def open_door(server: ChatServer, store: ReplyStore) -> Iterator[OpenDoor]:
    """Opens doors to the server over one store, as runs of a build do one after the other."""
    opened: list[EmbeddingDoor] = []

    def open_one(
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> EmbeddingDoor:
        hosted = HostedModel(
            **{
                "name": "openai/scripted",
                "section": "[[embedder]]",
                "api_base": server.api_base,
                "retries": 2,
                "timeout": 20,
                **(model or {}),
            }
        )
        given = Access(**{"mode": mode, "store": store, **(access or {})})
        opened.append(EmbeddingDoor(hosted, given, **{"batch": 4, **settings}))
        return opened[-1]

    yield open_one
    for door in opened:
        door.close()


@pytest.fixture
def open_reranker(server: ChatServer, store: ReplyStore) -> Iterator[OpenReranker]:
    """The same for rerankers."""
    opened: list[RerankDoor] = []

    def open_one(
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> RerankDoor:
        hosted = HostedModel(
            **{
                "name": "infinity/scripted",
                "section": "[reranker]",
                "api_base": server.api_base,
                "retries": 2,
                "timeout": 20,
                **(model or {}),
            }
        )
        given = Access(**{"mode": mode, "store": store, **(access or {})})
        opened.append(RerankDoor(hosted, given, **settings))
        return opened[-1]

    yield open_one
    for door in opened:
        door.close()
