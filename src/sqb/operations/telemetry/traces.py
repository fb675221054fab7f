"""A run as an OpenTelemetry trace: the run is its root, and Spark's start, unit tests and nodes are spans in it."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from sqb import __version__
from sqb.build.events import Event, NodeDone, NodeStarted, SparkStarted, UnitTestDone, UnitTestsDone
from sqb.operations.plan import PlannedWorkspace
from sqb.operations.telemetry.channel import SECONDS_TO_SEND, RunEnd
from sqb.operations.telemetry.watch import get_callers_provider

_EXPORTERS = "opentelemetry_traces_exporter"
_OTLP_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc", "http/json": "otlp_json_http"}


def find_parent() -> Context:
    """The span that a run belongs to: the caller's own, else the one that TRACEPARENT names."""
    if trace.get_current_span().get_span_context().is_valid:
        return get_current()
    carrier = {key: os.environ[key.upper()] for key in ("traceparent", "tracestate") if key.upper() in os.environ}
    return extract(carrier)


def open_trace_reporter(planned: PlannedWorkspace, parent: Context) -> TraceReporter:
    """A reporter that uses the caller's provider of traces, else one that is set up by the variables of the SDK."""
    provider = get_callers_provider()
    return TraceReporter(provider or open_provider(), planned, parent, is_own=provider is None)


def open_provider() -> TracerProvider:
    """A provider as OTEL_* variables say: resource and sampler are the SDK's business, exporters go by their names."""
    resource = Resource.create() if "OTEL_SERVICE_NAME" in os.environ else Resource.create({"service.name": "sqb"})
    provider = TracerProvider(resource=resource)
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        provider.add_span_processor(BatchSpanProcessor(_open_exporter(name.strip())))
    return provider


def _open_exporter(name: str) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # standard output belongs to the command
    wanted = _list_otlp_exporters() if name == "otlp" else [name]
    installed = {point.name: point for point in entry_points(group=_EXPORTERS)}
    point = next((installed[one] for one in wanted if one in installed), None)
    if point is None:
        package = f"opentelemetry-exporter-{wanted[0].replace('_', '-')}"
        raise LookupError(f'there is no exporter "{name}": pip install {package}')
    exporter: SpanExporter = point.load()()
    return exporter


def _list_otlp_exporters() -> list[str]:
    """The exporters of the protocol that is asked for, else of those that there are, the usual one first."""
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", general).strip()
    return [_OTLP_EXPORTERS[protocol]] if protocol in _OTLP_EXPORTERS else list(_OTLP_EXPORTERS.values())


class TraceReporter:
    """Makes a span of everything that takes time in a run."""

    def __init__(self, provider: Any, planned: PlannedWorkspace, parent: Context, is_own: bool) -> None:
        self._provider, self._is_own = provider, is_own
        self._tracer: trace.Tracer = provider.get_tracer("sqb", __version__)
        self._planned, self._parent = planned, parent
        self._root: Span = trace.INVALID_SPAN
        self._starts: dict[str, float] = {}

    def begin(self, at: float) -> None:
        """The run has begun."""
        project = self._planned.workspace.project
        attributes: dict[str, AttributeValue] = {
            "sqb.project": project.name,
            "sqb.target": project.target,
            "sqb.run.id": self._planned.spark.run_id,
            **{f"sqb.plan.{action}": count for action, count in self._planned.plan.summary.items()},
        }
        if self._planned.environment.name:
            attributes["sqb.run.environment"] = self._planned.environment.name
        self._root = self._tracer.start_span("sqb build", self._parent, start_time=_to_ns(at), attributes=attributes)

    def report(self, event: Event, at: float) -> None:
        """Something began or ended."""
        match event:
            case NodeStarted(name=name):
                self._starts.setdefault(name, at)
            case NodeDone(name=name) if name in self._starts or event.status == "failed":
                began = event.span.began if event.span is not None else at
                ended = event.span.ended if event.span is not None else at
                span = self._open_span(name, self._starts.pop(name, began), _describe_node(event))
                _end_span(span, ended, event.error)
            case SparkStarted(seconds=seconds):
                _end_span(self._open_span("spark start", at - seconds, {}), at)
            case UnitTestDone(test=test, status=status, seconds=seconds):
                attributes = {"sqb.test.name": test.name, "sqb.test.model": test.model, "sqb.test.status": status}
                _end_span(self._open_span(f"test {test.name}", at - seconds, attributes), at, event.error)
            case UnitTestsDone(tests=tests, seconds=seconds):
                _end_span(self._open_span("unit tests", at - seconds, {"sqb.tests": len(tests)}), at)

    def end(self, end: RunEnd, at: float) -> None:
        """The run has ended."""
        result = end.result
        for name, count in (result.summary if result is not None else {}).items():
            self._root.set_attribute(f"sqb.{name}", count)  # type: ignore[arg-type]
        if end.error is not None:
            _end_span(self._root, at, end.error)
            return
        if result is not None and not result.ok:
            failed = [n.name for n in result.nodes if n.status in ("failed", "blocked")]
            text = "interrupted" if result.interrupted else f"not built: {', '.join(failed)}" if failed else "failed"
            self._root.set_status(Status(StatusCode.ERROR, text))
        _end_span(self._root, at)

    def flush(self) -> None:
        """Send what is not sent yet; a provider of the caller's is left to the caller."""
        if self._is_own:
            self._provider.force_flush(int(SECONDS_TO_SEND * 1000))
            self._provider.shutdown()

    def _open_span(self, name: str, began: float, attributes: dict[str, Any]) -> Span:
        context = trace.set_span_in_context(self._root, self._parent)
        return self._tracer.start_span(name, context, start_time=_to_ns(began), attributes=attributes)


def _describe_node(done: NodeDone) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "sqb.node.name": done.name,
        "sqb.node.type": done.type,
        "sqb.node.kind": done.kind,
        "sqb.node.status": done.status,
        "sqb.node.run_type": done.run_type,
        "sqb.node.reason": str(done.reason),
        "sqb.node.detail": done.detail or done.planned.detail,
        "sqb.node.rows": done.rows,
        "sqb.node.identical": done.identical,
    }
    if done.planned.relation is not None:
        attributes["sqb.node.relation"] = str(done.planned.relation)
    if done.snapshot_id is not None:
        attributes["sqb.node.snapshot_id"] = str(done.snapshot_id)  # it exceeds what JSON numbers hold
    if done.span is not None:
        attributes["sqb.node.worker"] = done.span.worker
    return attributes


def _end_span(span: Span, at: float, error: BaseException | None = None) -> None:
    if error is not None:
        span.record_exception(error, timestamp=_to_ns(at))
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end(end_time=_to_ns(at))


def _to_ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
