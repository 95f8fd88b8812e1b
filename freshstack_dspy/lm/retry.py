"""Asking a provider with good manners: bounded retries, waits, and knowing when to stop."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import tenacity

from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.engine import Service

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


Asked = TypeVar("Asked")
Said = TypeVar("Said")
_Asks_contra = TypeVar("_Asks_contra", contravariant=True)
_Says_co = TypeVar("_Says_co", covariant=True)
_LONGEST_WAIT = 60.0
_WORTH_TELLING = 10.0
_NOT_TODAY = 300.0
"""Seconds; a provider that asks to wait for longer is not waited for at all."""
_MOST_SPARED = 20
_OUTAGE = 3
"""So many unanswered requests in a row are no accident."""
_log = logging.getLogger(__name__)


class Exchange(Protocol[_Asks_contra, _Says_co]):
    """Whatever answers one request of its kind, once; `Provider` is one."""

    def complete(self, request: _Asks_contra, /) -> _Says_co:
        """Answer one request or raise."""
        ...


class Answered(NamedTuple, Generic[Said]):
    """A provider's answer, and how many times it was asked for it."""

    response: Said
    attempts: int


class Attempts(Generic[Asked, Said]):
    """The only way to a provider; shared by threads.

    Whatever stops one request for good stops those that wait to be tried again with it.
    """

    def __init__(
        self,
        model: Service,
        provider: Exchange[Asked, Said] | None = None,
        *,
        opened: Callable[[], Exchange[Asked, Said]] | None = None,
        advice: str = 'check [model]; if it is the response format, set structured = "none"',
        hopeless_after: int = _OUTAGE,
    ) -> None:
        """Prepare.

        Args:
            model: Which model is asked, and how.
            provider: What answers; whoever made it closes it.
            opened: Or what makes it when it is first asked; then it is closed here.
            advice: What to do where the provider refuses everything.
            hopeless_after: So many refusals, and no answer yet, are everything.
        """
        self._model = model
        self._provider = provider
        self._make = opened
        self._advice = advice
        self._hopeless_after = hopeless_after
        self._borrowed = provider is not None
        self._throttle = Throttle(model.concurrency)
        self._guard = threading.Lock()
        self._asking = 0
        self._stopped = threading.Event()
        self._stopped_by: ModelError | None = None
        self._told = False
        self._unanswered = 0
        self._refused = 0
        self._answered = False

    def complete(self, request: Asked, lost: Callable[[], None] = lambda: None) -> Answered[Said]:
        """Ask until there is an answer or no point in asking.

        Args:
            request: What to ask.
            lost: Called after an attempt that brought no reply and may have been billed.

        Raises:
            FatalModelError: No retry can help, or the provider has refused all requests so far.
            TransientModelError: Several requests in a row were not answered.
            ReplyError: This request was refused, or not answered by the last attempt.
            BudgetError: `lost` allows no further attempt.
        """
        patience = _Patience(self._model.retries)
        retrying = tenacity.Retrying(
            stop=patience.is_over,
            wait=_wait,
            sleep=tenacity.nap.sleep_using_event(self._stopped),
            retry=tenacity.retry_if_exception_type(TransientModelError),
            before_sleep=tenacity.before_sleep_log(_log, logging.INFO),
            reraise=True,
        )
        with self._stopping_together():
            try:
                response: Said = retrying(self._once, request, lost, patience)
            except TransientModelError as error:
                raise self._gave_up(error, _made(retrying)) from None
            except ReplyError as error:
                raise self._judged(error) from None
        with self._guard:
            self._unanswered, self._answered = 0, True
        return Answered(response, _made(retrying))

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Be stopped by what stops others, from before `complete` on, as in a wait for leave."""
        with self._guard:
            self._asking += 1
        try:
            yield
        finally:
            with self._guard:
                self._asking -= 1
                if self._asking == 0:  # who asks later may have mended it
                    self._stopped_by = None
                    self._stopped.clear()
                    self._throttle.resume()

    def close(self) -> None:
        """Close the connections of a provider made here; the next request opens them again.

        Who still asks, as the threads of a build that was interrupted, does not ask once more.
        """
        with self._guard:
            if self._asking:
                self._stop_all(FatalModelError("the client was closed"))
            provider, self._provider = self._provider, self._provider if self._borrowed else None
        close = getattr(provider, "close", None)
        if close is not None and not self._borrowed:
            close()

    def _once(self, request: Asked, lost: Callable[[], None], patience: "_Patience") -> Said:
        try:
            return self._sent(request, patience)
        except TransientModelError as error:
            if error.maybe_billed:
                lost()  # not in a slot: it may have to wait for those who wait for one
            raise

    def _sent(self, request: Asked, patience: "_Patience") -> Said:
        provider = self._opened()
        with self._throttle.slot():
            if self._stopped_by is not None:
                raise self._stopped_by
            try:
                response = provider.complete(request)
            except TransientModelError as error:
                if error.rate_limited:
                    self._slow_down(error.retry_after or 0.0)
                    if self._throttle.limit > 1:
                        patience.spare()
                    self._throttle.slowed(error.retry_after)
                raise
            self._throttle.succeeded()
        return response

    def _slow_down(self, seconds: float) -> None:
        """Say that the provider asks for a long wait; stop where it is too long."""
        if seconds > _NOT_TODAY:
            raise FatalModelError(
                f"{self._model.name} asks to wait for {seconds:,.0f} s: run this again then; every "
                "reply that came is recorded"
            )
        if seconds >= _WORTH_TELLING and not self._told:
            self._told = True
            _log.warning("%s asks to wait for %.0f s, and is waited for", self._model.name, seconds)

    @contextmanager
    def _stopping_together(self) -> Iterator[None]:
        with self.asking():
            try:
                yield
            except ReplyError:
                raise
            except ModelError as error:
                with self._guard:
                    self._stop_all(error)
                raise

    def _stop_all(self, error: ModelError) -> None:
        """Stop whoever asks; called with the guard held."""
        self._stopped_by = self._stopped_by or error
        self._stopped.set()
        self._throttle.stop()

    def _opened(self) -> Exchange[Asked, Said]:
        with self._guard:
            if self._provider is None:
                assert self._make is not None
                self._provider = self._make()
            return self._provider

    def _gave_up(self, error: TransientModelError, attempts: int) -> ModelError:
        """One request that is never answered is a failure; several in a row are an outage."""
        if error is self._stopped_by:
            return error
        with self._guard:
            self._unanswered += 1
            in_a_row = self._unanswered
        said = f"{error} (after {attempts} attempts)"
        if in_a_row >= _OUTAGE:
            return TransientModelError(
                f"{said}; {in_a_row} requests in a row: the build stops here, and "
                "running it again asks only for what is missing"
            )
        given_up = ReplyError(said, status="failed", call_id=None)
        given_up.attempts = attempts
        return given_up

    def _judged(self, error: ReplyError) -> ModelError:
        """One refused request is a failure; if none was ever accepted, all will be refused."""
        with self._guard:
            self._refused += 1
            hopeless = not self._answered and self._refused >= self._hopeless_after
        if hopeless and error.status == "failed":
            return FatalModelError(
                f"{error}; so were all {self._refused} requests so far: {self._advice}"
            )
        return error


class _Patience:
    """When one request has been tried often enough.

    A rejection for too many requests counts once only one is in flight: before, there are fewer
    each time, and it says nothing of this request.
    """

    def __init__(self, retries: int) -> None:
        self._attempts = retries + 1
        self._most = self._attempts + _MOST_SPARED if retries else 1

    def spare(self) -> None:
        """Do not count the attempt that has just failed."""
        self._attempts = min(self._attempts + 1, self._most)

    def is_over(self, state: tenacity.RetryCallState) -> bool:
        """Whether the last attempt was the last."""
        return state.attempt_number >= self._attempts


def _made(retrying: tenacity.Retrying) -> int:
    return int(retrying.statistics["attempt_number"])


def _wait(state: tenacity.RetryCallState) -> float:
    """What the server asked for, at most a minute; else full jitter."""
    outcome = state.outcome
    error: Any = outcome.exception() if outcome is not None else None
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        return min(float(retry_after), _LONGEST_WAIT)
    return tenacity.wait_random_exponential(multiplier=1, max=_LONGEST_WAIT)(state)
