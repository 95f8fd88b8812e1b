"""Why a replay found no reply: the nearest recorded request, and where it differs."""

from collections.abc import Callable, Iterable
from typing import Any

from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask

_SHOWN = 60


def explain_miss(ask: Ask, recorded: Iterable[Reply]) -> str:
    """Say in words what a recorded request would need to be the one that was asked."""
    miss = f"no recorded reply for request {ask.key} ({ask.task or ask.model})"
    likeness = _likeness_to(ask)
    nearest = max(
        (reply.ask for reply in recorded),
        key=lambda other: (likeness(other), other.key),
        default=None,
    )
    if nearest is None:
        return f"{miss}: nothing is recorded at all; build once with --mode live, or name a bundle"
    return (
        f"{miss}: the nearest recorded request, {nearest.key[:12]}, differs in "
        f"{'; '.join(_differences(ask, nearest))}. Record it with --mode live"
    )


def _likeness_to(ask: Ask) -> Callable[[Ask], tuple[bool, int, int]]:
    """How like another request is: the same question, then the shared text, then the settings."""
    text = _text(ask)
    turned = text[::-1]
    settings = _settings(ask)

    def likeness(other: Ask) -> tuple[bool, int, int]:
        # The texts are compared by their common beginning and end: a full alignment with every
        # recorded request would take minutes in a large store.
        theirs = _text(other)
        shared = _common_prefix_length(text, theirs) + _common_prefix_length(turned, theirs[::-1])
        same = sum(settings.get(name) == value for name, value in _settings(other).items())
        return (ask.task == other.task, shared, same)

    return likeness


def _settings(ask: Ask) -> dict[str, Any]:
    """All of a request that is not its text."""
    return {
        **ask.parameters,
        "model": ask.model,
        "endpoint": ask.endpoint,
        "sample": ask.sample,
    }


def _differences(ask: Ask, other: Ask) -> list[str]:
    found = []
    asked, recorded = _settings(ask), _settings(other)
    for name in sorted(asked.keys() | recorded.keys()):
        mine, theirs = asked.get(name), recorded.get(name)
        if mine != theirs:
            found.append(f"{name} ({_short(repr(theirs))} recorded, {_short(repr(mine))} asked)")
    if len(ask.messages) != len(other.messages):
        found.append(f"the messages ({len(other.messages)} recorded, {len(ask.messages)} asked)")
    else:
        for number, (mine_, theirs_) in enumerate(
            zip(ask.messages, other.messages, strict=True), 1
        ):
            if mine_ != theirs_:
                found.append(
                    f"message {number} ({mine_.role}) {_first_change(theirs_.content, mine_.content)}"
                )
    return found


def _first_change(recorded: str, asked: str) -> str:
    start = _common_prefix_length(recorded, asked)
    return (
        f"from character {start} on ({_short(recorded[start:])!r} recorded, "
        f"{_short(asked[start:])!r} asked)"
    )


def _text(ask: Ask) -> str:
    return "\n".join(message.content for message in ask.messages)


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
