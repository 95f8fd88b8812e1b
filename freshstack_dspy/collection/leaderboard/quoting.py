"""Foreign text in a message: quoted, in one line, and cut where it is long."""

from typing import Any

_LONGEST = 80


def quoted(value: Any) -> str:
    """Quote a value as Python writes it, cut after 80 characters; a table is not shown."""
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    # Long before it is written: a number may have more digits than Python writes.
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return f"a number of more than {_LONGEST} digits"
    text = repr(value[: _LONGEST + 1] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST + 2 else f"{text[: _LONGEST + 1]}…{text[0]}"


def cut(text: str) -> str:
    """Cut a long text after 80 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
