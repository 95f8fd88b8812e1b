"""The text of a reply as the model wrote it.

Where a schema has a yes or no, or a choice, at its top level, DSPy's client gives the parsed object
in place of the text. The text is what is recorded and validated: an object has forgotten how it was
written, and which names stood in it twice.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspy.lm15 import Response


def with_raw_text(response: "Response") -> "Response":
    """Put the text back where the client gives an object; any other response is as it was."""
    from dspy.lm15 import Message, TextPart

    parts = response.message.parts
    if not any(part.type == "data" for part in parts):
        return response
    texts = list(_texts(response.provider_data))
    written = tuple(
        TextPart(_raw(part.value, texts)) if part.type == "data" else part for part in parts
    )
    return replace(response, message=Message(role=response.message.role, parts=written))


def _raw(value: Any, texts: list[str]) -> str:
    """Find the text, among those of the body, that the object was parsed from."""
    for text in texts:
        try:
            if json.loads(text.strip()) == value:
                return text
        except (ValueError, RecursionError):
            continue
    return json.dumps(value, ensure_ascii=False)


def _texts(body: Any) -> Iterator[str]:
    """Give the texts of a provider's body that could be an object, in their order."""
    waiting = [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if "{" in item:
                yield item
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list | tuple):
            waiting.extend(reversed(item))
