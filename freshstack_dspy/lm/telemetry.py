"""Spans and metrics of a run for OpenTelemetry, where the process collects them.

Names follow OpenTelemetry's conventions for generative AI, version 1.42 (in development), and are
`freshstack.…` where these have none. They hold no text of a prompt or a reply. Only `exporting`
imports what the process has not imported itself.
"""

import functools
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import ConfigError, DeferredError

if TYPE_CHECKING:
    from freshstack_dspy.lm.events import Callback, CallEvent
    from freshstack_dspy.lm.request import ChatRequest, NumbersRequest

_SCHEMA = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
_SIGNALS = ("TRACES", "METRICS")
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that LiteLLM names otherwise."""
_OPERATIONS = {"embedding": "embeddings", "rerank": "rerank"}
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**power for power in range(14))
_log = logging.getLogger(__name__)


@contextmanager
def span(name: str, /, **attributes: str | int) -> Iterator[None]:
    """Run the block in a span, if this process collects spans."""
    trace = _trace()
    if trace is None:
        yield
        return
    named = {f"freshstack.{key}": value for key, value in attributes.items()}
    with _started(trace, name, trace.SpanKind.INTERNAL, named) as active:
        try:
            yield
        except DeferredError:
            raise
        except Exception as error:
            active.set_attribute("error.type", type(error).__name__)
            active.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def call_span(request: "ChatRequest | NumbersRequest") -> "Iterator[Callback | None]":
    """Run a call in a span; yields the callback for its event, or None if nothing is collected.

    If an instrumentation of DSPy has made a span for this call already, that span is used.
    """
    trace = _trace()
    if trace is None:
        yield None
        return
    provider, _, model = request.model.partition("/")
    operation = _OPERATIONS.get(getattr(request, "kind", ""), "chat")
    common = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }
    current = trace.get_current_span()
    attributes = getattr(current, "attributes", None) or {}
    started: Any = nullcontext(current)
    if (
        attributes.get("openinference.span.kind") != "LLM"
        and "gen_ai.request.model" not in attributes
    ):
        started = _started(trace, f"{operation} {model}", trace.SpanKind.CLIENT, common)
    with started as active:
        yield functools.partial(_observe, trace, active, common)


@contextmanager
def exporting() -> Iterator[None]:
    """Inside, send spans and metrics to where OpenTelemetry's environment variables say.

    Only for our own processes; others configure OpenTelemetry themselves.
    """
    for signal in _SIGNALS:
        if any(os.environ.get(f"OTEL_EXPORTER_OTLP_{each}ENDPOINT") for each in ("", f"{signal}_")):
            os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")
    named = {os.environ.get(f"OTEL_{signal}_EXPORTER", "none") for signal in _SIGNALS}
    if named == {"none"} or "opentelemetry.sdk" in sys.modules:
        yield
        return
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    os.environ.setdefault("OTEL_SERVICE_NAME", "freshstack")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "3")  # for a collector that is gone
    try:
        sdk: Any = importlib.import_module("opentelemetry.sdk._configuration")
        sdk._OTelSDKConfigurator().configure()  # noqa: SLF001 - what every distribution of it calls
    except ImportError:
        _log.warning(
            "the environment asks for OpenTelemetry, which is not installed: nothing is sent; "
            "type: pip install 'freshstack_dspy[otel]'"
        )
        yield
        return
    except RuntimeError as error:
        raise ConfigError(
            f"OpenTelemetry cannot be set up as the environment says: {error}"
        ) from error
    try:
        yield
    finally:
        providers = (_trace().get_tracer_provider(), _metrics().get_meter_provider())
        with ThreadPoolExecutor() as both:  # each waits for its collector
            for provider in providers:
                both.submit(getattr(provider, "shutdown", lambda: None))  # exporting nothing: none


def _trace() -> Any:
    """OpenTelemetry's API if the process has imported it; else None."""
    return sys.modules.get("opentelemetry.trace")


def _metrics() -> Any:
    return importlib.import_module("opentelemetry.metrics")


def _started(trace: Any, name: str, kind: Any, attributes: dict[str, Any]) -> Any:
    return _tracer(trace).start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    )


def _scope() -> tuple[str, str]:
    from importlib.metadata import version

    return "freshstack_dspy", version("freshstack_dspy")


@functools.cache
def _tracer(trace: Any) -> Any:
    return trace.get_tracer(*_scope(), schema_url=_SCHEMA)


@functools.cache
def _instruments() -> SimpleNamespace:
    meter = _metrics().get_meter(*_scope(), schema_url=_SCHEMA)
    seconds = {"explicit_bucket_boundaries_advisory": _SECONDS}
    tokens = {"explicit_bucket_boundaries_advisory": _TOKENS}
    return SimpleNamespace(
        duration=meter.create_histogram("gen_ai.client.operation.duration", "s", **seconds),
        tokens=meter.create_histogram("gen_ai.client.token.usage", "{token}", **tokens),
        cost=meter.create_counter("freshstack.cost", "USD"),
        calls=meter.create_counter("freshstack.calls", "{call}"),
        retries=meter.create_counter("freshstack.retries", "{request}"),
        in_flight=meter.create_gauge("freshstack.calls.in_flight", "{call}"),
        waiting=meter.create_gauge("freshstack.calls.waiting", "{call}"),
    )


def _observe(trace: Any, active: Any, common: dict[str, str], event: "CallEvent") -> None:
    """Put the event of a call into its span and the metrics."""
    paid = event.attempts > 0 or event.error_type in ("FatalModelError", "TransientModelError")
    failed = event.error_type or event.status
    error = {} if failed in ("ok", "DeferredError") else {"error.type": failed}
    of_step = {**common, "freshstack.step": event.step}
    marks = {"freshstack.status": event.status, "freshstack.recorded": event.cached}
    attributes: dict[str, Any] = {
        **of_step,
        **marks,
        **error,
        "freshstack.task": event.task,
        "freshstack.call_id": event.key,
        "freshstack.attempts": event.attempts,
    }
    if paid:  # of a recorded reply they were paid before
        attributes["gen_ai.usage.input_tokens"] = event.input_tokens
        attributes["gen_ai.usage.output_tokens"] = event.output_tokens
        attributes["gen_ai.usage.cost"] = event.cost
    active.set_attributes({key: value for key, value in attributes.items() if value is not None})
    if error:
        # The error of a request that was not sent may quote the request.
        active.set_status(trace.StatusCode.ERROR, event.error if paid else None)
    to = _instruments()
    to.calls.add(1, {**of_step, **marks})
    to.in_flight.set(event.in_flight, common)
    to.waiting.set(event.waiting, common)
    if not paid:
        return
    to.duration.record(event.seconds, {**of_step, **error})
    to.cost.add(event.cost or 0.0, of_step)
    to.retries.add(max(0, event.attempts - 1), of_step)
    for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
        if tokens is not None:
            to.tokens.record(tokens, {**of_step, "gen_ai.token.type": kind})
