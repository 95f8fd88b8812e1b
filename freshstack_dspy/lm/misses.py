"""Why a replay found no reply: the nearest recorded request, and where it differs."""

import itertools
import threading
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from pydantic_core import from_json

from freshstack_dspy.errors import StoreError, argument
from freshstack_dspy.lm.request import ChatRequest, NumbersRequest, SearchRequest, canonical_json
from freshstack_dspy.lm.store import Recorded

AnyRequest = ChatRequest | NumbersRequest | SearchRequest
Fields = dict[str, Any]
_SHOWN = 60
_MOST = 50_000
"""Entries that are compared with a request that missed: about a second."""
_TEXTS = ("messages", "text", "query", "passages", "texts", "parameters")


class Misses:
    """The misses of one run; of those that wait while one is searched for, it explains all."""

    def __init__(self) -> None:
        self._searching = threading.Lock()
        self._searches = 0
        self._latest = ""

    def explain(self, request: AnyRequest, recorded: Recorded) -> str:
        """Say how the nearest recorded request differs; threads that miss at once search once."""
        before = self._searches
        with self._searching:
            if self._searches == before:
                self._latest = explain_miss(request, recorded)
                self._searches += 1
                return self._latest
        return f"{_miss(request)}, nor for others; the first of them: {self._latest}"


def explain_miss(request: AnyRequest, recorded: Recorded) -> str:
    """Say how the nearest recorded request differs from the one that was asked."""
    try:
        nearest = _nearest(request, recorded)
    except StoreError as error:
        return f"{_miss(request)}; {error}"
    if nearest is None:
        return (
            f"{_miss(request)}: nothing is recorded at all; build once with "
            f"{argument('mode', 'live')}, or name a bundle in [cache] bundles"
        )
    key, fields = nearest
    if isinstance(request, ChatRequest) and request.task not in (None, _task(_settings(fields))):
        return (
            f"{_miss(request)}: nothing is recorded for {request.task}. Record it with "
            f"{argument('mode', 'live')}, or name a bundle that has it in [cache] bundles"
        )
    return (
        f"{_miss(request)}: the nearest recorded request, {key[:12]}, differs in "
        f"{'; '.join(_differences(request, fields))}. Record it with "
        f"{argument('mode', 'live')}, or name a bundle that has it in [cache] bundles"
    )


def _miss(request: AnyRequest) -> str:
    if isinstance(request, ChatRequest):
        return f"no recorded reply for request {request.key} ({request.task or request.model})"
    whose = "of the index" if isinstance(request, SearchRequest) else f"by {request.model}"
    return f"no recorded {request.kind} {whose} (request {request.key})"


def _nearest(request: AnyRequest, recorded: Recorded) -> tuple[str, Fields] | None:
    """The key and the fields of the recorded request that is most like another.

    The same question comes first, then the longest common beginning, then the most equal settings.
    """
    if isinstance(request, ChatRequest):
        marks = [f'"name":{canonical_json(request.task)}', '"messages":']  # the same question first
    else:
        marks = [f'"kind":"{request.kind}"']
    asked = request.model_dump(mode="json")
    mine, text = _settings(asked), _text(asked)

    def compared(mark: str) -> Iterator[tuple[tuple[bool, int, int], str, Fields]]:
        for key, data in itertools.islice(recorded.lines(mark.encode()), _MOST):
            entry = from_json(data)
            fields = entry.get("ask") or entry["request"]
            theirs = _settings(fields)
            equal = sum(mine.get(name) == value for name, value in theirs.items())
            alike = _task(mine) == _task(theirs), _common(text, _text(fields)), equal
            yield alike, key, fields

    best = (max(compared(mark), key=itemgetter(0), default=None) for mark in marks)
    return next((each[1:] for each in best if each is not None), None)


def _settings(request: Fields) -> Fields:
    """All of a request that is not its text."""
    own = {name: value for name, value in request.items() if name not in _TEXTS}
    return {**request.get("parameters", {}), **own}


def _text(request: Fields) -> str:
    return "\n".join([message["content"] for message in request.get("messages", ())])


def _task(settings: Fields) -> str | None:
    return (settings.get("response_format") or {}).get("name")


def _differences(request: AnyRequest, recorded: Fields) -> Iterator[str]:
    asked = request.model_dump(mode="json")
    mine, theirs = _settings(asked), _settings(recorded)
    differ = [name for name in sorted(mine.keys() | theirs) if mine.get(name) != theirs.get(name)]
    for name in differ:
        yield f"{name} ({_either(repr(theirs.get(name)), repr(mine.get(name)))})"
    old, new = _text(recorded), _text(asked)
    if old != new:
        start = _common(old, new)
        shown = _either(repr(old[start:]), repr(new[start:]))
        yield f"the messages from character {start} on ({shown})"
    elif not differ:
        yield "the texts"


def _either(recorded: str, asked: str) -> str:
    old, new = (
        text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…" for text in (recorded, asked)
    )
    return f"{old} recorded, {new} asked"


def _common(one: str, other: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
