"""OpenTelemetry traces of builds, through the real SDK."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sqb.build.events import NodeDone, NodeStarted, SparkStarted, WorkSpan
from sqb.build.result import BuildResult
from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.main import run
from sqb.errors.build import QueryFailed
from sqb.operations.environment import open_environment
from sqb.operations.plan import PlannedWorkspace, PlanOptions, plan_environment
from sqb.operations.telemetry import traces
from sqb.operations.telemetry.channel import SECONDS_TO_SEND, RunEnd
from sqb.operations.telemetry.traces import TraceReporter
from sqb.operations.telemetry.watch import list_asked
from sqb.workspace import open_workspace
from support.required import missing
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,10\n2,20\n",
    "models/marts/revenue.sql": "SELECT sum(amount) AS total FROM orders\n",
}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [n for n in os.environ if n.startswith(("OPENLINEAGE", "OTEL", "TRACE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.argv", ["sqb"])
    root = write(tmp_path / "shop", FILES)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What `OTEL_TRACES_EXPORTER` names, in memory."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(traces, "_open_exporter", lambda name: exporter)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "memory")
    yield exporter


def index_spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def get_attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_build_is_a_trace(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{SPAN}-01")
    assert run(["build", "-s", "orders"]) == 0
    spans = index_spans(exporter)
    root, node = spans["sqb build"], spans["seeds.orders"]
    assert root.parent is not None and f"{root.parent.span_id:016x}" == SPAN
    assert root.context is not None and f"{root.context.trace_id:032x}" == TRACE
    assert node.parent is not None and node.parent.span_id == root.context.span_id
    assert root.resource.attributes["service.name"] == "sqb"
    attributes = get_attributes(root)
    assert (attributes["sqb.project"], attributes["sqb.target"]) == ("shop", "dev")
    assert (attributes["sqb.ran"], attributes["sqb.rows"]) == (1, 2)
    described = get_attributes(node)
    assert {
        key: described[f"sqb.node.{key}"] for key in ("type", "kind", "run_type", "reason", "rows", "relation")
    } == {
        "type": "seed",
        "kind": "seed",
        "run_type": "backfill",
        "reason": "First run",
        "rows": 2,
        "relation": "seeds.orders",
    }
    assert root.start_time <= node.start_time <= node.end_time <= root.end_time  # type: ignore[operator]
    assert root.status.is_unset and node.status.is_unset


def test_a_build_with_nothing_to_do_has_only_its_root(exporter: InMemorySpanExporter) -> None:
    assert run(["build", "-s", "orders"]) == 0
    exporter.clear()
    # A provider that was shut down takes its exporter along.
    exporter._stopped = False
    assert run(["build", "-s", "orders"]) == 0
    assert list(index_spans(exporter)) == ["sqb build"]


def plan_all(root: Path) -> PlannedWorkspace:
    workspace = open_workspace(root)
    spark = OnDemandSpark(workspace, lambda text: None)
    return plan_environment(open_environment(workspace, None), PlanOptions(), spark)


def test_a_failure_and_the_start_of_spark(project: Path) -> None:
    exporter, provider, planned = InMemorySpanExporter(), TracerProvider(), plan_all(project)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    reporter = TraceReporter(provider, planned, context.Context(), is_own=True)
    model = next(n for n in planned.plan.nodes if n.name == "marts.revenue")
    skipped = next(n for n in planned.plan.nodes if n.name == "seeds.orders")
    error = QueryFailed("no space left")
    failed = NodeDone(model, "failed", "full", error=error, span=WorkSpan(101.0, 104.0, 1))
    reporter.begin(100.0)
    reporter.report(SparkStarted(2.0), 103.0)
    reporter.report(NodeDone(skipped, "skipped", "skip"), 103.0)
    reporter.report(NodeStarted("marts.revenue", "table"), 103.0)
    reporter.report(failed, 105.0)
    reporter.end(RunEnd(BuildResult(planned.plan, "r", (failed,), 5.0, True)), 105.0)
    reporter.flush()
    spans = index_spans(exporter)
    assert set(spans) == {"spark start", "marts.revenue", "sqb build"}
    times = {name: (s.start_time, s.end_time) for name, s in spans.items()}
    second = 1_000_000_000
    assert times == {
        "spark start": (101 * second, 103 * second),
        "marts.revenue": (103 * second, 104 * second),
        "sqb build": (100 * second, 105 * second),
    }
    node, root = spans["marts.revenue"], spans["sqb build"]
    assert (node.status.is_ok, node.status.description) == (False, str(error))
    assert [event.name for event in node.events] == ["exception"]
    assert root.status.description == "not built: marts.revenue"


def test_a_provider_of_the_callers_is_used_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqb

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with provider.get_tracer("caller").start_as_current_span("nightly"):
        assert sqb.build(".", select=["orders"]).ok
    spans = index_spans(exporter)
    assert set(spans) == {"sqb build", "seeds.orders", "nightly"}
    root, nightly = spans["sqb build"], spans["nightly"]
    assert root.parent is not None and nightly.context is not None
    assert root.parent.span_id == nightly.context.span_id


def test_who_is_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(project)
    assert list_asked(workspace) == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    assert list_asked(workspace) == ["otel"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert list_asked(workspace) == []
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert list_asked(workspace) == []


def test_an_exporter_that_is_not_there_is_a_notice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin_json")
    assert run(["build", "-s", "orders"]) == 0
    assert (
        'note: OpenTelemetry: there is no exporter "zipkin_json": pip install opentelemetry-exporter-zipkin-json'
        in capsys.readouterr().out
    )


def test_the_console_exporter_leaves_standard_output_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert run(["build", "-s", "orders", "--json"]) == 0
    result = capsys.readouterr()
    assert json.loads(result.out)["summary"]["ran"] == 1
    assert '"name": "seeds.orders"' in result.err


class Collector(HTTPServer):
    """Takes OTLP over HTTP as a collector does, and remembers the spans; it may answer late, or with another status."""

    def __init__(self, status: int = 200, seconds: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.status, self.seconds = status, seconds
        self.requests: list[Any] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.seconds)
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        text = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.requests.append((self.path, self.headers, ExportTraceServiceRequest.FromString(text)))
        with suppress(BrokenPipeError):  # who has waited long enough is gone
            self.send_response(self.server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextmanager
def collect(**options: Any) -> Iterator[Collector]:
    if find_spec("opentelemetry.exporter") is None:
        missing("opentelemetry-exporter-otlp-proto-http is not installed: make venv does that")
    collector = Collector(**options)
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    yield collector
    collector.shutdown()
    collector.server_close()
    thread.join()


def test_to_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    with collect() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=data")
        assert run(["build", "-s", "orders"]) == 0
    ((path, headers, request),) = collector.requests
    assert (path, headers["Content-Type"], headers["authorization"]) == (
        "/v1/traces",
        "application/x-protobuf",
        "Bearer x",
    )
    (resource,) = request.resource_spans
    described = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert (described["service.name"], described["team"]) == ("nightly", "data")
    (scope,) = resource.scope_spans
    spans = {span.name: span for span in scope.spans}
    assert scope.scope.name == "sqb" and set(spans) == {"sqb build", "seeds.orders"}
    assert spans["seeds.orders"].parent_span_id == spans["sqb build"].span_id
    rows = {a.key: a.value.int_value for a in spans["seeds.orders"].attributes}["sqb.node.rows"]
    assert rows == 2


@pytest.mark.parametrize("options", [{"status": 403}, {"status": 503}, {"seconds": 30.0}, None])
def test_a_collector_that_fails_neither_fails_nor_holds_up_a_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: dict[str, Any] | None
) -> None:
    began = time.monotonic()
    if options is None:
        with collect() as collector:
            address = collector.address  # where there is no server any more
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        assert run(["build", "-s", "orders"]) == 0
    else:
        collector = Collector(**options)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        assert run(["build", "-s", "orders"]) == 0
    took = time.monotonic() - began
    output = capsys.readouterr()
    notes = [line for line in output.out.splitlines() if line.startswith("note: OpenTelemetry: ")]
    assert len(notes) == 1 and output.err == ""
    assert took < SECONDS_TO_SEND + 15, "a loaded machine takes seconds for the build itself"


def test_nothing_is_loaded_when_nothing_is_asked(project: Path) -> None:
    code = (
        "import sys\nfrom sqb.cli.main import run\nsys.argv = ['sqb']\nassert run(['build', '-s', 'orders']) == 0\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('opentelemetry', 'openlineage')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
