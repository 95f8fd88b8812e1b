"""One event for each call, for a JSON Lines log or for traces."""

import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from freshstack_dspy.errors import ConfigError, DeferredError, ModelError, StoreError
from freshstack_dspy.lm.reply import NO_REPLY, Numbers, Reply
from freshstack_dspy.lm.request import ChatRequest, NumbersRequest, sha256_of
from freshstack_dspy.records import Record

Outcome = Literal["ok", "unparsed", "refused", "truncated", "failed", "deferred", "error"]


class CallEvent(Record):
    """What became of one request."""

    at: str
    """When it was answered, in UTC."""
    step: str
    key: str
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
    status: Outcome
    """What the reply is worth so far; `error` where there is none, and `error` then says why."""
    error: str | None = None


Callback = Callable[[CallEvent], None]
"""Notified of every call, by many threads."""
Amount = TypeVar("Amount", int, float)


def call_event(
    requests: Sequence[ChatRequest | NumbersRequest],
    *,
    step: str,
    seconds: float,
    attempts: int = 0,
    entries: Sequence[Reply | Numbers] = (),
    error: ModelError | None = None,
) -> CallEvent:
    """The event of a call; vectors of many texts, which one request brings, are one call.

    Args:
        requests: What was asked for.
        step: Of the recipe.
        seconds: How long it took.
        attempts: Requests sent for it.
        entries: What came, or was recorded.
        error: Why there is none.
    """
    first = requests[0]
    replies = [entry for entry in entries if isinstance(entry, Reply)]
    status: Outcome = replies[0].status if replies else "ok"
    message = replies[0].text if replies and replies[0].finish_reason == NO_REPLY else None
    if error is not None:
        status = "deferred" if isinstance(error, DeferredError) else "error"
        message = str(error)
    tokens: list[int | None] = [entry.tokens for entry in entries]
    costs = [entry.cost for entry in entries]
    return CallEvent(
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        step=step,
        key=first.key if len(requests) == 1 else sha256_of([request.key for request in requests]),
        task=first.task if isinstance(first, ChatRequest) else first.kind,
        model=first.model,
        cached=error is None and attempts == 0,
        seconds=round(seconds, 6),
        attempts=attempts,
        input_tokens=_sum([one.input_tokens for one in replies] if replies else tokens),
        output_tokens=_sum([one.output_tokens for one in replies]) if replies else None,
        cost=_sum(costs),
        status=status,
        error=message,
    )


def _sum(amounts: Sequence[Amount | None]) -> Amount | None:
    """The sum, or None where any of them is not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(amounts) else None


class EventLog:
    """A JSON Lines file that events are appended to."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            StoreError: It cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise StoreError(f"{path}: the log cannot be written: {error.strerror}") from error
        self._lock = threading.Lock()

    def __call__(self, event: CallEvent) -> None:
        """Append one event."""
        line = json.dumps(event.model_dump(mode="json"), ensure_ascii=False)
        with self._lock:
            self._file.write(f"{line}\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_NANOSECONDS = 1_000_000_000


def traced() -> Callback:
    """A callback that makes one span of each call.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        raise ConfigError(
            "tracing needs OpenTelemetry; install it with: pip install 'freshstack_dspy[otel]'"
        ) from None
    tracer = trace.get_tracer("freshstack_dspy")

    def listen(event: CallEvent) -> None:
        end = int(datetime.fromisoformat(event.at).timestamp() * _NANOSECONDS)
        span = tracer.start_span(
            f"{_operation(event)} {event.model}",
            kind=trace.SpanKind.CLIENT,
            start_time=end - int(event.seconds * _NANOSECONDS),
            attributes=_attributes(event),
        )
        if event.status == "error":
            span.set_status(trace.StatusCode.ERROR, event.error)
        span.end(end_time=end)

    return listen


def _attributes(event: CallEvent) -> dict[str, Any]:
    provider, _, model = event.model.partition("/")
    attributes = {
        "gen_ai.operation.name": _operation(event),
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": event.input_tokens,
        "gen_ai.usage.output_tokens": event.output_tokens,
        "freshstack.step": event.step,
        "freshstack.task": event.task,
        "freshstack.key": event.key,
        "freshstack.cached": event.cached,
        "freshstack.attempts": event.attempts,
        "freshstack.status": event.status,
        "freshstack.cost": event.cost,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _operation(event: CallEvent) -> str:
    return {"embedding": "embeddings", "rerank": "rerank"}.get(event.task or "", "chat")
