"""Why a replay found no reply: the nearest recorded request, and where it differs."""

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any, AnyStr

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.request import (
    ChatRequest,
    EmbeddingRequest,
    RerankRequest,
    SearchRequest,
    canonical_json,
)
from freshstack_dspy.lm.store import Line, Recorded

AnyRequest = ChatRequest | EmbeddingRequest | RerankRequest | SearchRequest
_SHOWN = 60
_MOST = 200_000
"""Entries that are compared with a request that missed: some two seconds."""


class Misses:
    """The misses of one run: the first is searched for, and explains the others too."""

    def __init__(self) -> None:
        self._searching = threading.Lock()
        self._first: str | None = None

    def explain(self, request: AnyRequest, recorded: Iterable[Recorded]) -> str:
        """Say how the nearest recorded request differs from the one that was asked.

        Threads that miss at once wait for the one search.
        """
        with self._searching:
            if self._first is None:
                self._first = explain_miss(request, recorded)
                return self._first
        return f"{_miss(request)}, nor for others; the first of them: {self._first}"


def explain_miss(request: AnyRequest, recorded: Iterable[Recorded]) -> str:
    """Say how the nearest recorded request differs from the one that was asked.

    The entries are read one at a time; of chat replies first only those to the same question.

    Args:
        request: What was asked.
        recorded: Where its reply could have been.
    """
    sources = tuple(recorded)
    found = _miss(request)
    try:
        nearest = _nearest(request, sources)
    except StoreError as error:
        return f"{found}; {error}"
    if nearest is None:
        return (
            f"{found}: nothing is recorded at all; build once with --mode live, or name a bundle in "
            "[cache] bundles"
        )
    key, fields = nearest
    return (
        f"{found}: the nearest recorded request, {key[:12]}, differs in "
        f"{'; '.join(_differences(request, fields))}. Record it with --mode live, or name a bundle "
        "that has it in [cache] bundles"
    )


def _miss(request: AnyRequest) -> str:
    if isinstance(request, ChatRequest):
        return f"no recorded reply for request {request.key} ({request.task or request.model})"
    whose = "of the index" if isinstance(request, SearchRequest) else f"by {request.model}"
    return f"no recorded {request.kind} {whose} (request {request.key})"


def _nearest(request: AnyRequest, sources: Iterable[Recorded]) -> tuple[str, dict[str, Any]] | None:
    """The key and the JSON of the recorded request that is most like another."""
    if not isinstance(request, ChatRequest):
        return _nearest_among(request, sources, f'"kind":"{request.kind}"'.encode())
    found = None
    if request.task is not None:
        named = b'"name":' + canonical_json(request.task).encode()
        found = _nearest_among(request, sources, named, task=request.task)
    return found or _nearest_among(request, sources, b'"messages":')


def _nearest_among(
    request: AnyRequest, sources: Iterable[Recorded], holding: bytes, task: str | None = None
) -> tuple[str, dict[str, Any]] | None:
    """The nearest of the entries that hold some bytes: by the text they share, then by settings.

    Texts are compared by their common beginning and end, as they are written in the JSON: to align
    them, or to read the JSON of every entry, would take minutes in a large store.
    """
    asked = request.model_dump(mode="json")
    text, _ = _divided(canonical_json({"ask": asked, "cost": None}).encode())
    turned, settings = text[::-1], _settings(asked)
    same_by_rest: dict[bytes, int] = {}
    best, nearest, compared, prefix = (-1, -1), None, 0, 0
    for source in sources:
        for line in source.lines(holding):
            theirs, rest = _divided(line.json)
            prefix = _common_prefix_length(text, theirs, prefix)
            needed = best[0] - prefix
            shared = best[0]
            if needed < 0 or theirs.endswith(text[-needed - 1 :]):  # more than the best
                shared = prefix + _common_prefix_length(turned, theirs[::-1])
            if needed <= 0 or theirs.endswith(text[-needed:]):
                if rest not in same_by_rest:
                    same_by_rest[rest] = _same(settings, _request(line), task)
                same = same_by_rest[rest]
                if same >= 0 and (shared, same) > best:
                    best, nearest = (shared, same), line
            compared += 1
            if compared == _MOST:
                break
    return None if nearest is None else (nearest.key, _request(nearest))


def _divided(line: bytes) -> tuple[bytes, bytes]:
    """The messages in the JSON of a chat reply, and what else its request has.

    Of another kind, or where the JSON was written otherwise, all of it is the rest.
    """
    start = line.find(b'"messages":[')
    end = line.find(b'],"model":"', start)
    after = line.find(b'},"cost":', end)
    if min(start, end, after) < 0:
        return b"", line
    return line[start:end], line[:start] + line[end:after]


def _request(line: Line) -> dict[str, Any]:
    entry = json.loads(line.json)
    found: dict[str, Any] = entry.get("ask") or entry.get("request") or {}
    return found


def _same(settings: dict[str, Any], other: dict[str, Any], task: str | None) -> int:
    """How many settings are the same; -1 of a request to another question than the one wanted."""
    others = _settings(other)
    if task not in (None, _task(others)):
        return -1
    return sum(settings.get(name) == value for name, value in others.items())


_TEXTS = ("messages", "text", "query", "passages", "texts", "parameters")


def _settings(request: dict[str, Any]) -> dict[str, Any]:
    """All of a request that is not its text; `request` is its JSON."""
    own = {name: value for name, value in request.items() if name not in _TEXTS}
    return {**request.get("parameters", {}), **own}


def _task(settings: dict[str, Any]) -> str | None:
    response_format = settings.get("response_format")
    return response_format.get("name") if isinstance(response_format, dict) else None


def _differences(request: AnyRequest, recorded: dict[str, Any]) -> Iterator[str]:
    asked = request.model_dump(mode="json")
    mine, theirs = _settings(asked), _settings(recorded)
    differ = [name for name in sorted(mine.keys() | theirs) if mine.get(name) != theirs.get(name)]
    for name in differ:
        yield (
            f"{name} ({_short(repr(theirs.get(name)))} recorded, "
            f"{_short(repr(mine.get(name)))} asked)"
        )
    if not isinstance(request, ChatRequest):
        if not differ:
            yield "the texts"
        return
    messages = recorded["messages"]
    if len(request.messages) != len(messages):
        yield f"the messages ({len(messages)} recorded, {len(request.messages)} asked)"
        return
    for number, (new, old) in enumerate(zip(request.messages, messages, strict=True), 1):
        if new.content != old["content"]:
            start = _common_prefix_length(old["content"], new.content)
            yield (
                f"message {number} ({new.role}) from character {start} on "
                f"({_short(old['content'][start:])!r} recorded, "
                f"{_short(new.content[start:])!r} asked)"
            )


def _common_prefix_length(one: AnyStr, other: AnyStr, guess: int = 0) -> int:
    """By bisection, unless a guess is right."""
    if one[:guess] == other[:guess] and one[guess : guess + 1] != other[guess : guess + 1]:
        return guess
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
