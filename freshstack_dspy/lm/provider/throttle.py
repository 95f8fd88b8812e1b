"""How many requests may be in flight: fewer while the provider answers that they are too many."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LONGEST_HOLD = 60.0


class Throttle:
    """A limit of requests in flight that follows what the provider bears; shared by threads.

    Additive increase, multiplicative decrease, which converges to a fair and efficient share
    without knowing the capacity (Chiu and Jain, 1989, "Analysis of the increase and decrease
    algorithms for congestion avoidance in computer networks"):

    - a rate limit halves the limit, to no less than 1. The rejections of one burst count once: only
      those requests halve it again that began after it was last halved (TCP's rule of one
      reduction per window of data, RFC 5681 and 6582);
    - each `limit` successes of requests that began since then raise it by one, up to the
      configured limit;
    - where the server named a time to wait, nothing new begins until then, at most a minute.

    Attributes:
        limit: How many may be in flight now.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at the limit.

        Args:
            limit: The most requests that are ever in flight, at least 1.
            clock: Seconds, for the times that servers name.
        """
        self.limit = limit
        self._most = limit
        self._clock = clock
        self._in_flight = 0
        self._successes = 0
        self._windows = 0
        self._held_until = -float("inf")
        self._open = False
        self._changed = threading.Condition()
        self._slot = threading.local()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait until a request may begin, and be in flight for as long as the context lasts."""
        with self._changed:
            while (pause := self.pause()) != 0:
                self._changed.wait(pause)
            self._in_flight += 1
            self._slot.window = self._windows
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify()

    def pause(self) -> float | None:
        """Seconds until a request may begin: 0, it may now; None, when one in flight has ended."""
        if self._open:
            return 0.0
        if self._in_flight >= self.limit:
            return None
        return max(0.0, self._held_until - self._clock())

    def slowed(self, retry_after: float | None) -> None:
        """Take in that the request in this thread's slot was one too many.

        Args:
            retry_after: Seconds that the server asked to wait, or None.
        """
        with self._changed:
            if retry_after is not None:
                hold = self._clock() + min(retry_after, _LONGEST_HOLD)
                self._held_until = max(self._held_until, hold)
            if self._slot.window == self._windows:
                self.limit = max(1, self.limit // 2)
                self._windows += 1
                self._successes = 0

    def succeeded(self) -> None:
        """Take in that the request in this thread's slot was answered."""
        with self._changed:
            if self.limit == self._most or self._slot.window != self._windows:
                return
            self._successes += 1
            if self._successes >= self.limit:
                self.limit += 1
                self._successes = 0
                self._changed.notify()

    def stop(self) -> None:
        """Let everybody through who waits, for there is nothing to be asked any more."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def resume(self) -> None:
        """Let them wait again, after `stop`."""
        with self._changed:
            self._open = False
