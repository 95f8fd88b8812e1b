"""What a model is told of its invalid reply, in words of our own.

A re-ask is found by what it says. Pydantic and instructor word their messages anew from version
to version; the kinds of errors and their bounds, from which these are written, stay.
"""

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

_OPENING = (
    "Your reply is not a valid answer. Answer again with the whole JSON object, corrected, and "
    "nothing else. What is wrong:"
)
_LISTED = 20
_SHOWN = 60

_NOT_JSON = (
    "it is not one JSON object: the reply must begin with { and end with its }, with no text "
    "around it and nothing cut off"
)
_KINDS = {
    "string": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "an object",
    "model": "an object",
    "model_attributes": "an object",
    "none_required": "null",
}
_ALLOWED: dict[str, Callable[[dict[str, Any]], str]] = {
    "literal_error": lambda ctx: str(ctx["expected"]),
    "enum": lambda ctx: str(ctx["expected"]),
    "too_short": lambda ctx: f"at least {_counted(ctx['min_length'], 'item')}",
    "too_long": lambda ctx: f"at most {_counted(ctx['max_length'], 'item')}",
    "string_too_short": lambda ctx: f"at least {_counted(ctx['min_length'], 'character')}",
    "string_too_long": lambda ctx: f"at most {_counted(ctx['max_length'], 'character')}",
    "string_pattern_mismatch": lambda ctx: f"a text that matches {ctx['pattern']}",
    "greater_than": lambda ctx: f"more than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"{ctx['ge']} or more",
    "less_than": lambda ctx: f"less than {ctx['lt']}",
    "less_than_equal": lambda ctx: f"{ctx['le']} or less",
}


def correction(error: ValidationError) -> str:
    """The message that sends an invalid reply back: every fault, by its place in the reply."""
    found = faults_of(error)
    left = len(found) - _LISTED
    more = [f"- and {_counted(left, 'more fault')}"] if left > 0 else []
    return "\n".join([_OPENING, *(f"- {fault}" for fault in found[:_LISTED]), *more])


def faults_of(error: ValidationError) -> list[str]:
    """Each fault of a reply on one line: where it is, what was found there, what is allowed."""
    return [_said(fault) for fault in error.errors(include_url=False)]


def _said(fault: Any) -> str:
    kind, place, ctx = fault["type"], _place(fault["loc"]), fault.get("ctx", {})
    if kind == "json_invalid":
        return _NOT_JSON
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"{place} is not a field of the schema"
    if kind == "value_error":
        return f"{place}: {ctx['error']}"
    allowed = _allowed(kind, ctx)
    rest = f"; allowed: {allowed}" if allowed else f": {fault['msg']}"
    return f"{place} is {_shown(fault['input'])}{rest}"


def _allowed(kind: str, ctx: dict[str, Any]) -> str | None:
    if kind in _ALLOWED:
        return _ALLOWED[kind](ctx)
    return _KINDS.get(kind.removesuffix("_type").removesuffix("_from_float"))


def _place(location: tuple[int | str, ...]) -> str:
    """A place in the reply, as `verdicts[0].chunk`."""
    written = ""
    for part in location:
        if isinstance(part, int):
            written += f"[{part}]"
        else:  # a name that the model made up may be anything, of any length
            written += f".{part if part.isidentifier() else json.dumps(part)}"[:_SHOWN]
    return written.removeprefix(".") or "the reply"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
