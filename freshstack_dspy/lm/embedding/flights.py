"""Single flight for many keys at once: what one thread asks for, others wait for."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Claim(NamedTuple):
    """Which of some keys are this thread's to ask for."""

    mine: list[str]
    theirs: list[str]
    """Those that others have claimed."""
    landings: set[threading.Event]
    """Set when these are done with them, whatever came of it."""


class Flights:
    """The keys that are being asked for; shared by threads."""

    def __init__(self) -> None:
        self._flying: dict[str, threading.Event] = {}
        self._guard = threading.Lock()

    @contextmanager
    def claim(self, keys: Iterable[str]) -> Iterator[Claim]:
        """Claim what nobody else has, for as long as the context lasts.

        Who waits for the others waits after it: two that wait for each other inside never end.
        """
        landed = threading.Event()
        mine: list[str] = []
        theirs: dict[str, threading.Event] = {}
        with self._guard:
            for key in keys:
                other = self._flying.get(key)
                if other is None:
                    self._flying[key] = landed
                    mine.append(key)
                else:
                    theirs[key] = other
        try:
            yield Claim(mine, list(theirs), set(theirs.values()))
        finally:
            with self._guard:
                for key in mine:
                    del self._flying[key]
            landed.set()
