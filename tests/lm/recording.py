"""Replies made by hand, and the rows that hold them."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from freshstack_dspy import ReplyStore
from freshstack_dspy.lm import bundle
from freshstack_dspy.lm.reply import Entry, Reply, entry_json, receive_numbers, receive_search
from freshstack_dspy.lm.request import (
    ChatMessage,
    ChatRequest,
    EmbeddingRequest,
    RerankRequest,
    SearchRequest,
    sha256_of,
    text_hash,
)
from freshstack_dspy.lm.store import Recorded


def ask(text: str = "hello", **fields: Any) -> ChatRequest:
    """A request to a model that nobody runs."""
    return ChatRequest.model_validate(
        {
            "model": "openai/gpt-4o",
            "endpoint": "openai:default",
            "messages": (ChatMessage(role="user", content=text),),
            "parameters": {"temperature": 0.5, "max_tokens": 9},
            **fields,
        }
    )


def reply(text: str = "hi", to: str = "hello", **fields: Any) -> Reply:
    """A reply to such a request."""
    return reply_to(ask(to), text, **fields)


def reply_to(request: ChatRequest, text: str = "hi", **fields: Any) -> Reply:
    """A reply to a request."""
    return Reply.model_validate(
        {
            "key": request.key,
            "ask": request,
            "text": text,
            "finish_reason": "stop",
            "status": "ok",
            "received_at": "2026-01-01T00:00:00+00:00",
            "origin": "live",
            **fields,
        }
    )


EMBEDDING = EmbeddingRequest(model="m", endpoint="e", text=text_hash("a"))
RERANK = RerankRequest(
    model="m", endpoint="e", query=text_hash("q"), passages=text_hash("p"), count=2
)
SEARCH = SearchRequest(
    corpus="corpus-digest", settings={"depth": 5}, texts=sha256_of(["question", "answer"])
)


def every_entry() -> list[Entry]:
    """An entry of each kind: chat, embedding, rerank, search."""
    vector, scores = np.array([0.5, -1.0]), np.array([0.25, 1e-9])
    return [
        reply("Grüße\n🥶\0", input_tokens=3, cost=0.25, status="unparsed", reasked_as="x"),
        receive_numbers(EMBEDDING, vector, tokens=1, counted=True, cost=0.5),
        receive_numbers(RERANK, scores, tokens=2, counted=False, cost=None),
        receive_search(SEARCH, [{"chunk_id": "a", "score": 0.1}, {"chunk_id": "b", "score": 1e-9}]),
    ]


class Listed(Recorded):
    """Entries in memory."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.data = {entry.key: entry_json(entry).encode() for entry in entries}

    def read(self, key: str) -> bytes | None:
        return self.data.get(key)

    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        return ((key, data) for key, data in self.data.items() if holding in data)

    def close(self) -> None:
        """Nothing is open."""


def write_bundle(entries: Iterable[Entry], path: Path) -> int:
    """Write entries as a bundle."""
    listed = Listed(entries)
    return bundle.write_bundle(listed.data, listed, path)


@contextlib.contextmanager
def rows(store: ReplyStore) -> Iterator[sqlite3.Connection]:
    """The database under a store, as a stranger would open it."""
    connection = sqlite3.connect(store.path / "cache.db")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def every_value(store: ReplyStore) -> dict[str, str]:
    """All entries of a store as they stand there, by name."""
    with rows(store) as table:
        return dict(table.execute("SELECT key, value FROM Cache ORDER BY key"))


def write_unsigned(entries: Iterable[Entry], path: Path) -> None:
    """Write entries as a bundle of before 0.3, whose lines have no checksum."""
    path.write_text("".join(f"{entry_json(entry)}\n" for entry in entries), encoding="utf-8")
