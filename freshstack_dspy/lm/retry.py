"""Ask a provider with bounded retries and adaptive concurrency, and stop in an outage."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from freshstack_dspy.errors import (
    FatalModelError,
    ModelError,
    ReplyError,
    TooLongError,
    TransientModelError,
)
from freshstack_dspy.lm.engine import Model

_LONGEST_WAIT = 60.0
_NOT_TODAY = 300.0
"""Seconds; a provider that asks to wait for longer is not waited for at all."""
_MOST_REJECTIONS = 20
"""How often rate limits may reject one request, beyond its retries, while fewer and fewer are in flight."""
_OUTAGE = 3
"""This many unanswered requests in a row, or refused ones if none was ever answered, stop the
build."""
_log = logging.getLogger(__name__)


class Throttle:
    """An adaptive limit of requests in flight; shared by threads.

    Additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase and decrease
    algorithms for congestion avoidance in computer networks", 1989). A rate limit halves the limit,
    to no less than 1, and once only for the requests that began before (TCP's windows, RFC 5681).
    Each `limit` successes of requests that began since raise it by one, up to the configured limit.
    Where the server named a time to wait, nothing new begins until then, at most a minute.

    Attributes:
        limit: How many may be in flight now.
        most: The configured limit.
        in_flight: How many are in flight.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = self.most = limit
        self.in_flight = 0
        self._clock = clock
        self._successes = 0
        self._window = 0
        """How often the limit was halved."""
        self._held_until = -float("inf")
        self._open = False
        self._changed = threading.Condition()

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Wait until a request may begin; gives the window that it began in, see `slowed`."""
        with self._changed:
            while (pause := self.pause()) != 0:
                self._changed.wait(pause)
            self.in_flight += 1
            window = self._window
        try:
            yield window
        finally:
            with self._changed:
                self.in_flight -= 1
                self._changed.notify()

    def pause(self) -> float | None:
        """Seconds until a request may begin: 0, it may now; None, when one in flight has ended."""
        if self._open:
            return 0.0
        if self.in_flight >= min(self.limit, self.most):
            return None
        return max(0.0, self._held_until - self._clock())

    def slowed(self, window: int, retry_after: float | None) -> None:
        """Note that a rate limit rejected a request, and the seconds that the server asks to wait."""
        with self._changed:
            if retry_after is not None:
                hold = self._clock() + min(retry_after, _LONGEST_WAIT)
                self._held_until = max(self._held_until, hold)
            if window == self._window:
                self.limit = max(1, min(self.limit, self.most) // 2)
                self._window += 1
                self._successes = 0

    def succeeded(self, window: int) -> None:
        """Note that a request was answered."""
        with self._changed:
            self._successes += window == self._window
            if self.limit < self.most and self._successes >= self.limit:
                self.limit += 1
                self._successes = 0
                self._changed.notify()

    def open(self, *, to_all: bool) -> None:
        """Release all waiting threads, as nothing is asked any more; or let them wait again."""
        with self._changed:
            self._open = to_all
            self._changed.notify_all()


class Retries:
    """The only way to a provider; shared by threads.

    An error that ends one request for good also ends those that wait for a retry.
    """

    def __init__(
        self,
        model: Model,
        opened: Callable[[], Any],
        has_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare.

        Args:
            model: Who is asked.
            opened: Makes what answers (see `engine.Provider`), when it is first asked.
            has_answered: Whether the model answered in an earlier run.
        """
        self._model = model
        self._has_answered_before = has_answered
        self._make = opened
        self._provider: Any = None
        self._throttle = Throttle(model.concurrency)
        self._guard = threading.Lock()
        self._asking = 0
        self._stopped = threading.Event()
        self._stopped_by: ModelError | None = None
        self._unanswered = 0
        self._refused = 0
        self._answered = False
        self.trouble: str | None = None
        """Why the latest attempt since the last reply failed."""

    def complete(self, request: Any, lost: Callable[[], None] = lambda: None) -> tuple[Any, int]:
        """Ask until there is an answer or a retry is pointless; return the answer and the attempts.

        `lost` is called after an attempt that brought no reply and may have been billed. A
        ReplyError concerns this request alone; other errors stop the build. Call within `asking`.
        """
        attempts, failed, most = 0, 0, self._model.retries
        while True:
            attempts += 1
            try:
                response = self._attempt(request)
            except ReplyError as error:
                raise self._refusal(error) from None
            except TransientModelError as error:
                self.trouble = str(error)
                # A rate limit says nothing of this request until it is alone in flight.
                failed += not error.rate_limited or self._throttle.limit == 1
                if error.maybe_billed:
                    lost()  # not in a slot: it may wait for those who wait for one
                if failed > most or attempts > most + (_MOST_REJECTIONS if most else 0):
                    raise self._not_answered(error, attempts) from error
                seconds = pause(error, attempts)
                _log.info("asking again in %.1f s: %s", seconds, error)
            else:
                with self._guard:
                    self._unanswered, self._answered, self.trouble = 0, True, None
                return response, attempts
            self._stopped.wait(seconds)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Stop others by what stops this one, and the reverse; waits for the budget are inside."""
        with self._guard:
            self._asking += 1
        try:
            yield
        except ReplyError:
            raise
        except ModelError as error:
            with self._guard:
                self._stop(error)
            raise
        finally:
            with self._guard:
                self._asking -= 1
                if self._asking == 0:  # who asks later may have mended it
                    self._stopped_by = None
                    self._stopped.clear()
                    self._throttle.open(to_all=False)

    def check_answered(self) -> None:
        """Raise a TransientModelError if requests were sent and this model never answered one."""
        if self._unanswered and not self._has_answered():
            raise TransientModelError(
                f"{self.trouble}; no request was ever answered, so nothing was written: check "
                "[model] name, api_base and timeout"
            )

    def load(self) -> dict[str, int]:
        """How many calls are `in_flight`, and how many are `waiting` for that."""
        in_flight = self._throttle.in_flight
        return {"in_flight": in_flight, "waiting": max(0, self._asking - in_flight)}

    def close(self) -> None:
        """Close the connections; the next request opens them again.

        Threads that still ask, as after an interrupted build, do not retry.
        """
        with self._guard:
            if self._asking:
                self._stop(FatalModelError("the client was closed"))
            provider, self._provider = self._provider, None
        close = getattr(provider, "close", None)
        if close is not None:
            close()

    def _has_answered(self) -> bool:
        return self._answered or self._has_answered_before()

    def _attempt(self, request: Any) -> Any:
        with self._guard:
            if self._provider is None:
                self._provider = self._make()
                most = getattr(self._provider, "most_in_flight", self._model.concurrency)
                self._throttle.most = min(self._throttle.most, most)
            provider = self._provider
        with self._throttle.slot() as window:
            if self._stopped_by is not None:
                raise self._stopped_by
            try:
                response = provider.complete(request)
            except TransientModelError as error:
                if error.rate_limited:
                    if (seconds := error.retry_after or 0.0) > _NOT_TODAY:
                        raise FatalModelError(
                            f"{self._model.name} asks to wait for {seconds:,.0f} s: run this again "
                            "then; every reply that came is recorded"
                        ) from None
                    self._throttle.slowed(window, error.retry_after)
                raise
            self._throttle.succeeded(window)
        return response

    def _stop(self, error: ModelError) -> None:
        self._stopped_by = self._stopped_by or error
        self._stopped.set()
        self._throttle.open(to_all=True)

    def _not_answered(self, error: TransientModelError, attempts: int) -> ModelError:
        """One request that is never answered is a failure; several in a row are an outage."""
        if error is self._stopped_by:
            return error
        with self._guard:
            self._unanswered += 1
            in_a_row = self._unanswered
        message = f"{error} (after {attempts} attempts)"
        failure: ReplyError | TransientModelError
        if in_a_row < _OUTAGE:
            failure = ReplyError(message, status="failed", call_id=None)
        else:
            failure = TransientModelError(
                f"{message}; {in_a_row} requests in a row: the build stops here, and "
                "running it again asks only for what is missing"
            )
        failure.attempts = attempts
        return failure

    def _refusal(self, error: ReplyError) -> ModelError:
        """One refused request is a failure; if none was ever accepted, all will be refused."""
        if isinstance(error, TooLongError) or error.status != "failed":
            return error
        with self._guard:
            self._refused += 1
            refused = self._refused
        if refused < _OUTAGE or self._has_answered():
            return error
        return FatalModelError(
            f"{error}; so were all {refused} requests so far: check [model]; if it is the "
            'response format, set structured = "none"'
        )


def pause(error: TransientModelError, attempts: int) -> float:
    """Seconds until the next attempt: those that the server asked for, at most a minute; else full jitter."""
    if error.retry_after is not None:
        return min(error.retry_after, _LONGEST_WAIT)
    return random.uniform(0, min(2 ** (attempts - 1), _LONGEST_WAIT))  # noqa: S311 - no secret
