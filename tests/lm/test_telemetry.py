"""Spans and metrics, as a collector of OpenTelemetry receives them over HTTP."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lm.chat_server import ChatServer, LocalServer, Scripted
from tests.recipes.domain import QUESTIONS, write_domain

HOST = """
import sys
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from freshstack_dspy import ModelConfig, connect
from freshstack_dspy.config import PricesConfig
from freshstack_dspy.errors import FatalModelError, ReplayMissError, ReplyError
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.usage import step
from tests.lm.asking import request

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(spans)
measured = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
metrics.set_meter_provider(measured)

def asked(lm, text):
    try:
        lm(request(text))
    except (FatalModelError, ReplayMissError, ReplyError):
        pass

model = ModelConfig(name="openai/scripted", api_base=sys.argv[1])
account = Account(prices=PricesConfig(input=1.0, output=2.0))
live = connect(model, store="cache", account=account)
tracer = trace.get_tracer("host")
with tracer.start_as_current_span("host"), step("nuggets"):
    asked(live, "first, a secret")
    asked(live, "first, a secret")
    asked(live, "second")
    asked(connect(model, store="cache", mode="replay"), "third")
    asked(live, "fourth")
with tracer.start_as_current_span("LM", attributes={"openinference.span.kind": "LLM"}):
    asked(live, "first, a secret")
spans.shutdown()
measured.shutdown()
"""


class Collector(LocalServer):
    """A collector of OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[tuple[str, bytes]] = []

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> Scripted:
        self.bodies.append((target, content))
        return Scripted(body=b"", headers={"Content-Type": "application/x-protobuf"})

    def spans(self) -> list[Any]:
        proto: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        return [
            span
            for target, content in self.bodies
            if target == "/v1/traces"
            for resource in proto.ExportTraceServiceRequest.FromString(content).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        name = "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
        proto: Any = pytest.importorskip(name)
        return {
            metric.name: metric
            for target, content in self.bodies
            if target == "/v1/metrics"
            for resource in proto.ExportMetricsServiceRequest.FromString(content).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with Collector().running() as running:
        yield running


def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


def points(metric: Any) -> list[Any]:
    return list(getattr(metric, metric.WhichOneof("data")).data_points)


def test_a_build_of_the_command_line_is_one_trace(tmp_path: Path, collector: Collector) -> None:
    """build → stage → call, with no text of a question, where the environment names a collector."""
    config = write_domain(tmp_path, model={"name": "extractive/baseline"})
    words = ("-m", "freshstack_dspy", "build", str(config))
    done = run(tmp_path, *words, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address)
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr

    spans = collector.spans()
    by_id = {span.span_id: span for span in spans}
    (root,) = (span for span in spans if not span.parent_span_id)
    assert root.name == "build"
    assert {span.trace_id for span in spans} == {root.trace_id}
    stages = [span.name for span in spans if span.parent_span_id == root.span_id]
    assert stages[:2] == ["corpus", "nuggets"]
    assert stages[-1] == "collection"
    calls = [span for span in spans if span.name == "chat baseline"]
    assert calls
    assert all(
        by_id[each.parent_span_id].name == attributes(each)["freshstack.step"] for each in calls
    )
    counted = points(collector.metrics()["freshstack.calls"])
    assert sum(point.as_int for point in counted) == len(calls)
    sent = b"".join(content for _, content in collector.bodies)
    assert not [one for one in QUESTIONS if str(one["title"]).encode() in sent]


def test_the_spans_of_calls_go_to_the_provider_of_the_host(
    tmp_path: Path, collector: Collector, server: ChatServer
) -> None:
    refused = Scripted("no such model", status=404)
    server.says(Scripted("busy", status=503), "there", Scripted("no", status=400), refused)
    done = run(
        tmp_path, "-c", HOST, server.api_base,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.address, OPENAI_API_KEY="none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    spans = {span.span_id: span for span in collector.spans()}
    calls = [attributes(span) for span in spans.values() if span.name == "chat scripted"]
    first, recorded, bad, missed, fatal = calls
    assert first["gen_ai.provider.name"] == "openai"
    assert first["gen_ai.request.model"] == "scripted"
    assert (first["freshstack.attempts"], first["freshstack.recorded"]) == (2, False)
    usage = [name for name in first if name.startswith("gen_ai.usage.")]
    assert [first[name] for name in sorted(usage)] == [pytest.approx(1.3e-05), 7, 3]
    assert recorded["freshstack.recorded"]
    assert recorded["freshstack.call_id"] == first["freshstack.call_id"]
    assert not [name for name in recorded if name.startswith("gen_ai.usage.")]
    assert [each["error.type"] for each in (bad, missed, fatal)] == [
        "failed",
        "ReplayMissError",
        "FatalModelError",
    ]
    failed = [span.status.message for span in spans.values() if span.status.code == 2]
    assert ["refused" in failed[0], failed[1], "not known" in failed[2]] == [True, "", True]
    (model_span,) = (span for span in spans.values() if span.name == "LM")
    assert attributes(model_span)["freshstack.call_id"] == first["freshstack.call_id"]
    parents = {spans[span.parent_span_id].name for span in spans.values() if span.parent_span_id}
    assert parents == {"host"}

    metrics = collector.metrics()
    assert sum(point.count for point in points(metrics["gen_ai.client.operation.duration"])) == 3
    tokens = points(metrics["gen_ai.client.token.usage"])
    by_type = {attributes(point)["gen_ai.token.type"]: point.sum for point in tokens}
    assert by_type == {"input": 7, "output": 3}
    (cost,) = points(metrics["freshstack.cost"])
    assert (cost.as_double, metrics["freshstack.cost"].unit) == (pytest.approx(1.3e-05), "USD")
    (retries,) = points(metrics["freshstack.retries"])
    assert retries.as_int == 1
    (waiting,) = points(metrics["freshstack.calls.waiting"])
    assert waiting.as_int == 0
    assert b"secret" not in b"".join(content for _, content in collector.bodies)


def test_neither_telemetry_nor_litellm_is_imported_unless_it_is_needed(tmp_path: Path) -> None:
    code = """
import sys
import freshstack_dspy.programs, freshstack_dspy.recipes.make
from freshstack_dspy import connect
from freshstack_dspy.errors import ReplayMissError
from tests.lm.asking import request

try:
    connect("openai/scripted", mode="replay", store="cache")(request())
except ReplayMissError:
    print(sorted({"opentelemetry", "litellm", "instructor", "openai"} & {*sys.modules}))
"""

    assert run(tmp_path, "-c", code).stdout == "[]\n"
