"""One event for each call, for whoever wants to watch: a JSON Lines log, or traces."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from freshstack_dspy.errors import ConfigError, DeferredError, ModelError, StoreError
from freshstack_dspy.lm.reply import NO_REPLY, Reply
from freshstack_dspy.lm.request import ChatRequest
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
"""Told of every call, by many threads."""


def event_of(reply: Reply, *, step: str, seconds: float, attempts: int) -> CallEvent:
    """The event of a request that has a reply."""
    return CallEvent(
        at=_now(),
        step=step,
        key=reply.key,
        task=reply.request.task,
        model=reply.request.model,
        cached=attempts == 0,
        seconds=round(seconds, 6),
        attempts=attempts,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost=reply.cost,
        status=reply.status,
        error=reply.text if reply.finish_reason == NO_REPLY else None,
    )


def event_without_reply(
    ask: ChatRequest, error: ModelError, *, step: str, seconds: float
) -> CallEvent:
    """The event of a request that got no reply."""
    return CallEvent(
        at=_now(),
        step=step,
        key=ask.key,
        task=ask.task,
        model=ask.model,
        cached=False,
        seconds=round(seconds, 6),
        status="deferred" if isinstance(error, DeferredError) else "error",
        error=str(error),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
    """A listener that makes one span of each call.

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
