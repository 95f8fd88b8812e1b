"""The server and the clients of these tests."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from freshstack_dspy.config import Mode
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.vectors import Access, EmbeddingClient, HostedModel, RerankClient
from tests.lm.chat_server import ChatServer

from .numbers_server import answer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


class OpenClient(Protocol):
    def __call__(
        self,
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> EmbeddingClient: ...


class OpenReranker(Protocol):
    def __call__(
        self,
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> RerankClient: ...


@pytest.fixture
def open_client(server: ChatServer, store: ReplyStore) -> Iterator[OpenClient]:
    """Opens clients to the server over one store, as runs of a build do one after the other."""
    opened: list[EmbeddingClient] = []

    def open_one(
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> EmbeddingClient:
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
        opened.append(EmbeddingClient(hosted, given, **{"batch": 4, **settings}))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def open_reranker(server: ChatServer, store: ReplyStore) -> Iterator[OpenReranker]:
    """The same for rerankers."""
    opened: list[RerankClient] = []

    def open_one(
        mode: Mode = "live",
        *,
        access: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **settings: Any,
    ) -> RerankClient:
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
        opened.append(RerankClient(hosted, given, **settings))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()
