"""One event for each call, for a JSON Lines log or for traces."""

import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

from freshstack_dspy.errors import ConfigError, DeferredError, ModelError, StoreError
from freshstack_dspy.lm.reply import NO_REPLY, Numbers, Reply
from freshstack_dspy.lm.request import ChatRequest, NumbersRequest, sha256_of
from freshstack_dspy.records import Record

Amount = TypeVar("Amount", int, float)


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
    status: Literal["ok", "unparsed", "refused", "truncated", "failed", "deferred", "error"]
    """What the reply is worth so far; `error` where there is none, and `error` then says why."""
    error: str | None = None


Callback = Callable[[CallEvent], None]
"""Notified of every call, by many threads."""


def call_event(
    requests: Sequence[ChatRequest | NumbersRequest],
    *,
    step: str,
    seconds: float,
    attempts: int = 0,
    entries: Sequence[Reply | Numbers] = (),
    error: ModelError | None = None,
) -> CallEvent:
    """The event of a call; vectors of many texts, which one request brings, are one call."""
    first = requests[0]
    message = str(error) if error else None
    output_tokens = None
    if error is not None:
        status = "deferred" if isinstance(error, DeferredError) else "error"
        input_tokens = None
    elif isinstance(reply := entries[0], Reply):
        status, input_tokens, output_tokens = reply.status, reply.input_tokens, reply.output_tokens
        message = reply.text if reply.finish_reason == NO_REPLY else None
    else:
        status, input_tokens = "ok", _sum([entry.tokens for entry in entries])
    return CallEvent.model_validate(
        {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "step": step,
            "key": first.key if len(requests) == 1 else sha256_of([each.key for each in requests]),
            "task": first.task if isinstance(first, ChatRequest) else first.kind,
            "model": first.model,
            "cached": error is None and attempts == 0,
            "seconds": round(seconds, 6),
            "attempts": attempts,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost": _sum([entry.cost for entry in entries]),
            "status": status,
            "error": message,
        }
    )


def _sum(amounts: Sequence[Amount | None]) -> Amount | None:
    """The sum, or None where any of them is not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(amounts) else None


class EventLog:
    """A JSON Lines file that events are appended to."""

    def __init__(self, path: Path) -> None:
        """Open the file; one that cannot be written is a `StoreError`."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


_OPERATIONS = {"embedding": "embeddings", "rerank": "rerank"}


def traced() -> Callback:
    """A callback that makes one span of each call; without OpenTelemetry a `ConfigError`."""
    try:
        from opentelemetry import trace
    except ImportError:
        raise ConfigError(
            "tracing needs OpenTelemetry; install it with: pip install 'freshstack_dspy[otel]'"
        ) from None
    tracer = trace.get_tracer("freshstack_dspy")

    def notify(event: CallEvent) -> None:
        provider, _, model = event.model.partition("/")
        operation = _OPERATIONS.get(event.task or "", "chat")
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": event.input_tokens,
            "gen_ai.usage.output_tokens": event.output_tokens,
        } | {
            f"freshstack.{name}": getattr(event, name)
            for name in ("step", "task", "key", "cached", "attempts", "status", "cost")
        }
        end = int(datetime.fromisoformat(event.at).timestamp() * 1e9)
        span = tracer.start_span(
            f"{operation} {event.model}",
            kind=trace.SpanKind.CLIENT,
            start_time=end - int(event.seconds * 1e9),
            attributes={name: value for name, value in attributes.items() if value is not None},
        )
        if event.status == "error":
            span.set_status(trace.StatusCode.ERROR, event.error)
        span.end(end_time=end)

    return notify
