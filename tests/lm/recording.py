"""Replies made by hand."""

from typing import Any

from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, ChatMessage


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
