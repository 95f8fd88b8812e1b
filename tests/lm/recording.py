"""Replies made by hand, and the rows that hold them."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, ChatMessage
from freshstack_dspy.lm.store import ReplyStore


def ask(text: str = "hello", **fields: Any) -> Ask:
    """A request to a model that nobody runs."""
    return Ask.model_validate(
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
    asked = ask(to)
    return Reply.model_validate(
        {
            "key": asked.key,
            "ask": asked,
            "text": text,
            "finish_reason": "stop",
            "status": "ok",
            "received_at": "2026-01-01T00:00:00+00:00",
            "origin": "live",
            **fields,
        }
    )


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
