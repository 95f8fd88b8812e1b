"""The strings of a JSON text, each with its place in the text and in the structure.

`json.loads` says neither, and recurses; this reads from front to back with a list for a stack,
so that neither depth nor size can exhaust anything.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    rb"[ \t\n\r]*+(?:"
    rb'(?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    rb"|(?P<mark>[{}\[\]:,])"
    rb"|(?P<other>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null"
    rb"|NaN|-?Infinity)"
    rb")"
)
_SPACE = re.compile(rb"[ \t\n\r]*+")


class Container(NamedTuple):
    """An object or array that a string lies in."""

    start: int
    """The offset of its opening bracket."""
    key: bytes
    """Which of its members the string lies in: the raw key; empty in an array."""


class JsonString(NamedTuple):
    """A string that is a value."""

    inside: tuple[Container, ...]
    """From the outermost."""
    start: int
    """The offset behind its opening quotation mark."""
    end: int
    """The offset of its closing quotation mark."""


class NotJsonError(ValueError):
    """A text is not JSON."""


def json_strings(data: bytes, deepest: int) -> Iterator[JsonString]:
    """Give the strings that are values, in order, of JSON in UTF-8.

    Args:
        data: The whole text.
        deepest: Strings in more containers than this are passed over.

    Raises:
        NotJsonError: Somewhere the text is not JSON; what came before was given.
    """
    stack: list[Container] = []
    expected, offset = "value", 0
    while expected != "end":
        found = _TOKEN.match(data, offset)
        if found is None:
            raise NotJsonError(f"no JSON at byte {offset}")
        offset = found.end()
        start = found.start(str(found.lastgroup))
        token = data[start:offset] if found.lastgroup == "mark" else b""
        if expected.startswith("value"):
            if token in (b"{", b"["):
                stack.append(Container(start, b""))
                expected = "key or }" if token == b"{" else "value or ]"
                continue
            if token == b"]" and expected == "value or ]":
                stack.pop()
            elif token:
                raise NotJsonError(f"no value at byte {start}")
            elif found.lastgroup == "string" and len(stack) <= deepest:
                yield JsonString(tuple(stack), start + 1, offset - 1)
            expected = "more" if stack else "end"
        else:
            expected = _after(expected, data, stack, start, offset)
    space = _SPACE.match(data, offset)
    if space is None or space.end() != len(data):
        raise NotJsonError(f"more than one value, at byte {offset}")


def _after(expected: str, data: bytes, stack: list[Container], start: int, end: int) -> str:
    """Take a token that is no value, and tell what may come after it."""
    token = data[start:end]
    innermost = stack[-1]
    is_object = data[innermost.start] == ord("{")
    if expected.startswith("key") and token.startswith(b'"'):
        stack[-1] = Container(innermost.start, token[1:-1])
        return ":"
    if expected == ":" and token == b":":
        return "value"
    if expected == "more" and token == b",":
        return "key" if is_object else "value"
    if expected in ("more", "key or }") and token == (b"}" if is_object else b"]"):
        stack.pop()
        return "more" if stack else "end"
    raise NotJsonError(f"unexpected {token[:20]!r} at byte {start}")
