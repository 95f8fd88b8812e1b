"""Recorded replies, wherever they are: what a store and a bundle have in common."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from freshstack_dspy.lm.reply import Reply


class Line(NamedTuple):
    """A recorded reply as it is kept."""

    key: str
    json: bytes | None
    """Not validated: `get` what is to be believed. None: it is damaged."""


class Recorded(Protocol):
    """Replies that can be looked up and searched."""

    def get(self, key: str, /) -> Reply | None:
        """The reply recorded for a key, validated, or None.

        Raises:
            StoreError: It cannot be read or trusted.
        """
        ...

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The replies whose JSON holds some bytes, one at a time; damaged ones too.

        Raises:
            StoreError: They cannot be read.
        """
        ...


def recorded_reply(key: str, *sources: Recorded | None) -> Reply | None:
    """The reply of a key in the first of several places that has one.

    Raises:
        StoreError: It cannot be read or trusted.
    """
    for source in sources:
        reply = source.get(key) if source is not None else None
        if reply is not None:
            return reply
    return None


def says_the_same(one: Reply, other: Reply) -> bool:
    """Whether it makes no difference to a build which of two replies to a request it is served.

    What counts is what a build computes with: the text, the finish reason, the status and the
    re-ask. When and how a reply came, and what it cost, may differ.
    """
    return one.key == other.key and all(
        getattr(one, name) == getattr(other, name)
        for name in ("text", "finish_reason", "status", "reasked_as")
    )
