"""Calls as OpenTelemetry spans, by its conventions for generative AI; needs the `otel` extra.

Where the spans go is the OpenTelemetry SDK's to say, as `opentelemetry-instrument` sets it up.
No prompt and no reply is in them.
"""

from datetime import datetime
from typing import Any

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.events import CallEvent, Listener

_NANOSECONDS = 1_000_000_000


def traced() -> Listener:
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
