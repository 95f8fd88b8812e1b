"""Why a replay found no reply: the nearest recorded request, and where it differs."""

import itertools
from typing import Any

from pydantic_core import from_json

from freshstack_dspy.errors import StoreError, argument
from freshstack_dspy.lm.request import ChatRequest, NumbersRequest, SearchRequest, canonical_json
from freshstack_dspy.lm.store import Recorded

_SHOWN = 60
_MOST = 50_000
"""Entries that are compared with a request that missed: about a second."""
_TEXTS = ("messages", "text", "query", "passages", "texts", "parameters")


def explain_miss(request: ChatRequest | NumbersRequest | SearchRequest, recorded: Recorded) -> str:
    """Say how the nearest recorded request differs from the one that was asked."""
    if isinstance(request, ChatRequest):
        miss = f"no recorded reply for request {request.key} ({request.task or request.model})"
        marks = [f'"name":{canonical_json(request.task)}', '"messages":']  # the same question first
    else:
        whose = "of the index" if isinstance(request, SearchRequest) else f"by {request.model}"
        miss = f"no recorded {request.kind} {whose} (request {request.key})"
        marks = [f'"kind":"{request.kind}"']
    asked = _Fields(request.model_dump(mode="json"))
    try:
        nearest = next(filter(None, (_nearest(asked, mark, recorded) for mark in marks)), None)
    except StoreError as error:
        return f"{miss}; {error}"
    live = argument("mode", "live")
    if nearest is None:
        return (
            f"{miss}: nothing is recorded at all; build once with {live}, or name a bundle in "
            "[cache] bundles"
        )
    key, other = nearest
    remedy = f"Record it with {live}, or name a bundle that has it in [cache] bundles"
    if asked.task not in (None, other.task):
        return f"{miss}: nothing is recorded for {asked.task}. {remedy}"
    differences = "; ".join(_differences(asked, other))
    return f"{miss}: the nearest recorded request, {key[:12]}, differs in {differences}. {remedy}"


class _Fields:
    """A request as it is compared: its settings, its question's name, and its text."""

    def __init__(self, request: dict[str, Any]) -> None:
        own = {name: value for name, value in request.items() if name not in _TEXTS}
        self.settings: dict[str, Any] = {**request.get("parameters", {}), **own}
        self.task = (self.settings.get("response_format") or {}).get("name")
        self.text = "\n".join([message["content"] for message in request.get("messages", ())])


def _nearest(asked: _Fields, mark: str, recorded: Recorded) -> tuple[str, _Fields] | None:
    """The recorded request that holds a mark and is most like another.

    The same question comes first, then the longest common beginning, then the most equal settings.
    """
    best, nearest = (False, -1, -1), None
    for key, data in itertools.islice(recorded.lines(mark.encode()), _MOST):
        entry = from_json(data)
        other = _Fields(entry.get("ask") or entry["request"])
        equal = sum(asked.settings.get(name) == value for name, value in other.settings.items())
        alike = asked.task == other.task, _common(asked.text, other.text), equal
        if alike > best:
            best, nearest = alike, (key, other)
    return nearest


def _differences(asked: _Fields, recorded: _Fields) -> list[str]:
    mine, theirs = asked.settings, recorded.settings
    differ = [name for name in sorted(mine.keys() | theirs) if mine.get(name) != theirs.get(name)]
    parts = [f"{name} ({_either(theirs.get(name), mine.get(name))})" for name in differ]
    if recorded.text != asked.text:
        start = _common(recorded.text, asked.text)
        both = _either(recorded.text[start:], asked.text[start:])
        parts.append(f"the messages from character {start} on ({both})")
    return parts or ["the texts"]


def _either(recorded: object, asked: object) -> str:
    old, new = (
        text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        for text in (repr(recorded), repr(asked))
    )
    return f"{old} recorded, {new} asked"


def _common(one: str, other: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
