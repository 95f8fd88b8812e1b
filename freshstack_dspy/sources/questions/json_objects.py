"""JSON objects from text that others wrote."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.regular import check_regular

_LARGEST_DOCUMENT = 256 << 20


def json_object(text: str | bytes, place: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        SourceError: It is none, is nested too deeply, or holds what is no number or no text.
    """
    value = json_value(text, place)
    if not isinstance(value, dict):
        raise SourceError(f"{place}: not a JSON object")
    return value


def json_value(text: str | bytes, place: str) -> Any:
    """Read one JSON value.

    Raises:
        SourceError: It is none, is nested too deeply, holds what is no number or no text, or an
            object in it has a name twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> None:
        # Of two values under one name a parser keeps the last, and another one the first.
        if len(dict(pairs)) < len(pairs):
            name = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise SourceError(f"{place}: an object has the name {name[:80]!r} twice; keep one")

    try:
        value = from_json(text, allow_inf_nan=False)
        json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise SourceError(f"{place}: not JSON: {error}") from None
    return value


def json_file(path: Path) -> Any:
    """Read a file that is one JSON value.

    Raises:
        SourceError: It cannot be read, is too large to be read at once, or is no JSON.
    """
    try:
        check_regular(path)
        size = path.stat().st_size
        if size > _LARGEST_DOCUMENT:
            raise SourceError(
                f"{path}: {size >> 20} MiB in one JSON value, more than {_LARGEST_DOCUMENT >> 20}; "
                "write JSON Lines, one object a line"
            )
        return json_value(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
