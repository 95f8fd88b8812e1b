"""How many requests may be in flight."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Throttle:
    """A fixed limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._slots = threading.Semaphore(limit)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a slot."""
        with self._slots:
            yield

    def slowed(self, retry_after: float | None) -> None:
        """Nothing yet."""

    def succeeded(self) -> None:
        """Nothing yet."""
