"""One event for each call, for a JSON Lines log."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from freshstack_dspy.errors import DeferredError, ModelError, StoreError
from freshstack_dspy.files import canonical_line
from freshstack_dspy.lm.reply import Numbers, Reply
from freshstack_dspy.lm.request import ChatRequest, NumbersRequest, sha256_of
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.records import Record


class CallEvent(Record):
    """The outcome of one request; with status `waiting`, no reply has come for `seconds`."""

    at: str
    """The time of the answer, in UTC."""
    step: str
    key: str
    """Empty if the event covers no single request."""
    task: str | None
    """Name of the question, as `JudgeSupport`."""
    model: str
    cached: bool
    """Whether it was answered from recorded replies, or by an equal request in flight."""
    seconds: float
    """From the request to the answer, with waits and retries."""
    attempts: int = 0
    """Requests sent for a reply."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    in_flight: int = 0
    """Other requests to this model that were sent and not answered by then."""
    waiting: int = 0
    """Other calls to this model that waited then: for a place, or for their next attempt."""
    status: Literal[
        "ok", "unparsed", "refused", "truncated", "failed", "deferred", "error", "waiting"
    ]
    """The status of the reply so far; `error` if there is none, and the field `error` says why."""
    error: str | None = None
    error_type: str | None = None
    """Name of the exception, where there is no reply."""


Callback = Callable[[CallEvent], None]
"""Notified of every call, by many threads."""


def call_event(
    requests: Sequence[ChatRequest | NumbersRequest],
    step: str,
    seconds: float,
    load: dict[str, int],
    *,
    attempts: int = 0,
    entries: Sequence[Reply | Numbers] = (),
    error: ModelError | None = None,
) -> CallEvent:
    """The event of a call; vectors of many texts, which one request brings, are one call."""
    first = requests[0]
    costs = [entry.cost for entry in entries if entry.cost is not None]
    outcome: dict[str, Any] = {"status": "ok"}
    if error is not None:
        attempts = getattr(error, "attempts", 0)
        outcome = {
            "status": "deferred" if isinstance(error, DeferredError) else "error",
            "error": str(error),
            "error_type": type(error).__name__,
        }
    elif isinstance(reply := entries[0], Reply):
        outcome = reply.model_dump(include={"status", "input_tokens", "output_tokens"})
        outcome["error"] = reply.text if reply.status == "failed" else None
    else:
        outcome["input_tokens"] = sum(entry.tokens for entry in entries)
    return CallEvent(
        at=_now(),
        step=step,
        key=first.key if len(requests) == 1 else sha256_of([each.key for each in requests]),
        task=first.task if isinstance(first, ChatRequest) else first.kind,
        model=first.model,
        cached=error is None and attempts == 0,
        seconds=round(seconds, 6),
        attempts=attempts,
        cost=sum(costs) if costs and len(costs) == len(entries) else None,
        **load,
        **outcome,
    )


def waiting_event(model: str, seconds: float, why: str | None, load: dict[str, Any]) -> CallEvent:
    """The event for a model that has not answered for a while."""
    return CallEvent(
        at=_now(),
        step=current_step(),
        key="",
        task=None,
        model=model,
        cached=False,
        seconds=round(seconds, 6),
        status="waiting",
        error=why,
        **load,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def event_log(path: Path) -> Iterator[Callback]:
    """Append events to a JSON Lines file; one that cannot be written is a `StoreError`."""
    lock = threading.Lock()

    def append(event: CallEvent) -> None:
        try:
            with lock:
                file.write(canonical_line(event))
        except OSError as error:
            raise StoreError(f"{path}: the log cannot be written: {error.strerror}") from error

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise StoreError(f"{path}: the log cannot be written: {error.strerror}") from error
    try:
        yield append
    finally:
        with suppress(OSError):  # of what could not be written, which was said
            file.close()
