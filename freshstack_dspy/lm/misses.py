"""Why a replay found no reply: the nearest recorded request, and where it differs."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.store import Recorded

_SHOWN = 60
_MOST = 100_000
"""Replies that are compared with a request that missed; ten seconds where they have 10 KB."""


class Misses:
    """The misses of one run: the first is searched for, and explains the others too."""

    def __init__(self) -> None:
        self._searching = threading.Lock()
        self._first: str | None = None

    def explain(self, ask: Ask, recorded: Iterable[Recorded]) -> str:
        """Say in words what a recorded request would need to be the one that was asked.

        Threads that miss at once wait for the one search.
        """
        with self._searching:
            if self._first is None:
                self._first = explain_miss(ask, recorded)
                return self._first
        return f"{_miss(ask)}, nor for others; the first of them: {self._first}"


def explain_miss(ask: Ask, recorded: Iterable[Recorded]) -> str:
    """Say in words what a recorded request would need to be the one that was asked.

    The replies are read one at a time, and first only those to the same question.

    Args:
        ask: What was asked.
        recorded: Where its reply could have been.
    """
    sources = tuple(recorded)
    search = _Search(ask)
    if ask.task is not None:
        search.among(sources, b'"name":' + canonical_json(ask.task).encode())
    if search.nearest is None:
        search.among(sources)
    return search.explained()


class _Nearness(NamedTuple):
    """How like another request is: the same question, then the shared text, then the settings."""

    same_task: bool
    shared_text: int
    same_settings: int


class _Search:
    """The search for the recorded request that is most like another."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._nearness = _nearness_to(ask)
        self._best: _Nearness | None = None
        self._damaged: set[str] = set()
        self._unread: list[str] = []
        self._compared = 0
        self.nearest: Ask | None = None

    def among(self, sources: Iterable[Recorded], holding: bytes = b"") -> None:
        """Search replies whose JSON holds some bytes; what is damaged is counted, and left out."""
        for source in sources:
            try:
                for line in source.lines(holding):
                    if self._compared == _MOST:
                        return
                    if line.json is None:
                        self._damaged.add(line.key)
                    else:
                        self._compare(source, line.key, line.json)
            except StoreError as error:
                self._unread.append(str(error))

    def explained(self) -> str:
        """The result in words."""
        found = _miss(self._ask)
        if self.nearest is None:
            found += ": nothing is recorded at all; build once with --mode live, or name a bundle"
        else:
            found += (
                f": the nearest recorded request, {self.nearest.key[:12]}, differs in "
                f"{'; '.join(_differences(self._ask, self.nearest))}. Record it with --mode live"
            )
        if self._compared == _MOST:
            found += f" (of {_MOST:,} that were compared)"
        if self._damaged:
            found += (
                f" ({len(self._damaged)} damaged entries were left out; freshstack cache verify "
                "lists them)"
            )
        return "; ".join([found, *dict.fromkeys(self._unread)])

    def _compare(self, source: Recorded, key: str, line: bytes) -> None:
        self._compared += 1
        nearness = self._nearness(line)
        if nearness is None or (self._best is not None and nearness <= self._best):
            return
        # Only what is nearer than all before it is validated: validating all would take minutes.
        try:
            reply = source.get(key)
        except StoreError:
            reply = None
        if reply is None:
            self._damaged.add(key)
        else:
            self._best, self.nearest = nearness, reply.ask


def _miss(ask: Ask) -> str:
    return f"no recorded reply for request {ask.key} ({ask.task or ask.model})"


def _nearness_to(ask: Ask) -> Callable[[bytes], _Nearness | None]:
    """Measure recorded requests by their JSON, which is not validated yet."""
    text = _text(message.content for message in ask.messages)
    turned = text[::-1]
    settings = _settings(ask)

    def nearness(line: bytes) -> _Nearness | None:
        # The texts are compared by their common beginning and end: a full alignment with every
        # recorded request would take minutes in a large store.
        try:
            other = json.loads(line)["ask"]
            theirs = _text(message["content"] for message in other["messages"])
            parameters = {**other["parameters"]}
            task = (parameters.get("response_format") or {}).get("name")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        others = {**parameters, **{name: other.get(name) for name in _OWN_SETTINGS}}
        shared = _common_prefix_length(text, theirs) + _common_prefix_length(turned, theirs[::-1])
        same = sum(settings.get(name) == value for name, value in others.items())
        return _Nearness(task == ask.task, shared, same)

    return nearness


_OWN_SETTINGS = ("model", "endpoint", "sample")


def _settings(ask: Ask) -> dict[str, Any]:
    """All of a request that is not its text."""
    return {**ask.parameters, **{name: getattr(ask, name) for name in _OWN_SETTINGS}}


def _differences(ask: Ask, other: Ask) -> Iterator[str]:
    asked, recorded = _settings(ask), _settings(other)
    for name in sorted(asked.keys() | recorded.keys()):
        mine, theirs = asked.get(name), recorded.get(name)
        if mine != theirs:
            yield f"{name} ({_short(repr(theirs))} recorded, {_short(repr(mine))} asked)"
    if len(ask.messages) != len(other.messages):
        yield f"the messages ({len(other.messages)} recorded, {len(ask.messages)} asked)"
        return
    for number, (mine, theirs) in enumerate(zip(ask.messages, other.messages, strict=True), 1):
        if mine != theirs:
            change = _first_change(theirs.content, mine.content)
            yield f"message {number} ({mine.role}) {change}"


def _first_change(recorded: str, asked: str) -> str:
    start = _common_prefix_length(recorded, asked)
    return (
        f"from character {start} on ({_short(recorded[start:])!r} recorded, "
        f"{_short(asked[start:])!r} asked)"
    )


def _text(contents: Iterable[str]) -> str:
    return "\n".join(contents)


def _common_prefix_length(one: str, other: str) -> int:
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
