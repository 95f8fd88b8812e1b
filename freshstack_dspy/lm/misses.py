"""Why a replay found no reply: the nearest recorded request, and where it differs."""

import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.request import (
    ChatRequest,
    EmbeddingRequest,
    RerankRequest,
    SearchRequest,
    canonical_json,
)
from freshstack_dspy.lm.store import Recorded

AnyRequest = ChatRequest | EmbeddingRequest | RerankRequest | SearchRequest
Fields = dict[str, Any]
_SHOWN = 60
_MOST = 50_000
"""Entries that are compared with a request that missed: some two seconds."""
_TEXTS = ("messages", "text", "query", "passages", "texts", "parameters")


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
    """Say how the nearest recorded request differs from the one that was asked."""
    found = _miss(request)
    try:
        nearest = _nearest(request, tuple(recorded))
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


def _nearest(request: AnyRequest, sources: Iterable[Recorded]) -> tuple[str, Fields] | None:
    """The key and the fields of the recorded request that is most like another."""
    if isinstance(request, ChatRequest):
        marks = [f'"name":{canonical_json(request.task)}', '"messages":']  # the same question first
    else:
        marks = [f'"kind":"{request.kind}"']
    asked = request.model_dump(mode="json")

    def compared(mark: str) -> Iterator[tuple[tuple[bool, int, int], str, Fields]]:
        lines = itertools.chain.from_iterable(source.lines(mark.encode()) for source in sources)
        for line in itertools.islice(lines, _MOST):
            entry = json.loads(line.json)
            fields = entry.get("ask") or entry["request"]
            yield _likeness(asked, fields), line.key, fields

    for mark in marks:
        best = max(compared(mark), key=itemgetter(0), default=None)
        if best is not None:
            return best[1:]
    return None


def _likeness(asked: Fields, other: Fields) -> tuple[bool, int, int]:
    """Whether the question is the same, how much of the text, and how many settings.

    Texts are compared by their common beginning and end: to align them would take minutes.
    """
    mine, theirs = _settings(asked), _settings(other)
    same = sum(mine.get(name) == value for name, value in theirs.items())
    one, two = _text(asked), _text(other)
    begin = _common_prefix_length(one, two)
    end = _common_prefix_length(one[begin:][::-1], two[begin:][::-1])
    return _task(mine) == _task(theirs), begin + end, same


def _settings(request: Fields) -> Fields:
    """All of a request that is not its text."""
    own = {name: value for name, value in request.items() if name not in _TEXTS}
    return {**request.get("parameters", {}), **own}


def _text(request: Fields) -> str:
    return "\n".join(message["content"] for message in request.get("messages", ()))


def _task(settings: Fields) -> str | None:
    return (settings.get("response_format") or {}).get("name")


def _differences(request: AnyRequest, recorded: Fields) -> Iterator[str]:
    asked = request.model_dump(mode="json")
    mine, theirs = _settings(asked), _settings(recorded)
    differ = [name for name in sorted(mine.keys() | theirs) if mine.get(name) != theirs.get(name)]
    for name in differ:
        old, new = (_short(repr(each.get(name))) for each in (theirs, mine))
        yield f"{name} ({old} recorded, {new} asked)"
    if not isinstance(request, ChatRequest):
        if not differ:
            yield "the texts"
        return
    messages = recorded["messages"]
    if len(request.messages) != len(messages):
        yield f"the messages ({len(messages)} recorded, {len(request.messages)} asked)"
        return
    for number, (message, other) in enumerate(zip(request.messages, messages, strict=True), 1):
        new, old = message.content, other["content"]
        if new != old:
            start = _common_prefix_length(old, new)
            yield (
                f"message {number} ({message.role}) from character {start} on "
                f"({_short(old[start:])!r} recorded, {_short(new[start:])!r} asked)"
            )


def _common_prefix_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
