"""Recorded replies, wherever they are: what a store and a bundle have in common."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from freshstack_dspy.lm.embedding.figures import Figures
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


class RecordedFigures(Protocol):
    """Vectors and scores that can be looked up."""

    def figures(self, key: str, /) -> Figures | None:
        """The figures recorded for a key, validated, or None.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        ...

    def any_figures(self) -> Figures | None:
        """Some figures that are recorded, or None.

        Raises:
            StoreError: They cannot be read or trusted.
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
