"""The events of a run as OpenLineage run events: one job for the run, and one for each node, which it is parent of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    documentation_job,
    error_message_run,
    job_type_job,
    ownership_job,
    parent_run,
    processing_engine_run,
    sql_job,
)
from openlineage.client.uuid import generate_static_uuid

from sqb import __version__
from sqb.build.events import Event, NodeDone, NodeStarted
from sqb.build.node.render import build_live_names, render_query
from sqb.compile.model import Node
from sqb.compile.python.model import PythonNode
from sqb.errors.base import SqbError
from sqb.operations.plan import PlannedWorkspace
from sqb.operations.telemetry.channel import RunEnd
from sqb.operations.telemetry.openlineage.client import open_client
from sqb.operations.telemetry.openlineage.datasets import PRODUCER, Datasets, make_facet
from sqb.operations.telemetry.openlineage.names import LineageNames, build_names
from sqb.operations.telemetry.watch import RunWatch
from sqb.plan.model import PlannedNode

_JOB_TYPES = {"model": "MODEL", "seed": "SEED"}


@attr.define
class SqbRunFacet(RunFacet):
    """What sqb knows of a run and OpenLineage has no facet for."""

    run_id: str
    target: str
    environment: str = ""
    run_type: str = ""
    reason: str = ""
    detail: str = ""

    _additional_skip_redact: ClassVar[list[str]] = ["run_id", "target", "environment", "run_type", "reason"]


def open_lineage_reporter(planned: PlannedWorkspace, watch: RunWatch) -> LineageReporter:
    """A reporter that sends through the client as it is set up."""
    client = open_client(planned.workspace.openlineage, planned.workspace.root)
    return LineageReporter(client, planned, watch)


class LineageReporter:
    """Sends START, then COMPLETE, FAIL or ABORT, for a run and for every node that it runs."""

    def __init__(self, client: OpenLineageClient, planned: PlannedWorkspace, watch: RunWatch) -> None:
        self._client, self._planned, self._watch = client, planned, watch
        self._names: LineageNames = build_names(planned)
        self._project = planned.workspace.project
        self._plan: Mapping[str, PlannedNode] = {n.name: n for n in planned.plan.nodes}
        self._run_id = planned.spark.run_id
        self._began = datetime.now(UTC)
        self._started: set[str] = set()

    def begin(self, at: float) -> None:
        """The run has begun."""
        self._began = datetime.fromtimestamp(at, UTC)
        self._send(RunState.START, at, "", self._build_run_facets())

    def report(self, event: Event, at: float) -> None:
        """A node has started or ended; other events are not sent."""
        match event:
            case NodeStarted(name=name) if name not in self._started and self._find_node(name) is not None:
                self._start_node(name, at)
            case NodeDone(name=name) if self._find_node(name) is not None:
                self._end_node(event, event.span.ended if event.span is not None else at)

    def end(self, end: RunEnd, at: float) -> None:
        """The run has ended."""
        state, message = _judge_run(end)
        facets = self._build_run_facets()
        if message:
            facets["errorMessage"] = self._build_error(message)
        self._send(state, at, "", facets)

    def flush(self) -> None:
        """Wait for a client that sends in its own time."""
        self._client.close()

    def _start_node(self, name: str, at: float) -> None:
        self._started.add(name)
        node = self._find_node(name)
        if node is not None:
            datasets = self._open_datasets()
            planned = self._plan.get(name)
            run_type = planned.run_type if planned is not None else ""
            facets = self._build_node_facets(name, run_type)
            tables = (datasets.list_inputs(node), datasets.list_outputs(node))
            self._send(RunState.START, at, name, facets, *tables)

    def _end_node(self, done: NodeDone, at: float) -> None:
        """Send how a node ended that had started or failed; one that is skipped or blocked never was a job."""
        if done.name not in self._started:
            if done.status != "failed":
                return
            self._start_node(done.name, done.span.began if done.span is not None else at)
        self._started.discard(done.name)
        node = self._find_node(done.name)
        if node is None:
            return
        state = {"ok": RunState.COMPLETE, "failed": RunState.FAIL}.get(done.status, RunState.ABORT)
        facets = self._build_node_facets(done.name, done.run_type, done.detail)
        if done.error is not None:
            facets["errorMessage"] = self._build_error(str(done.error))
        datasets = self._open_datasets()
        outputs = datasets.list_outputs(node, done if done.status == "ok" else None)
        self._send(state, at, done.name, facets, datasets.list_inputs(node), outputs)

    def _find_node(self, name: str) -> Node | PythonNode | None:
        return self._project.nodes.get(name) or self._project.python.get(name)

    def _open_datasets(self) -> Datasets:
        state, seen = self._watch.state, self._planned.seen
        states = state.states if state is not None else seen.states
        externals = state.externals if state is not None else seen.externals
        return Datasets(self._project, self._names, states, externals)

    def _send(
        self,
        state: RunState,
        at: float,
        node: str,
        facets: dict[str, RunFacet],
        inputs: list[Any] | None = None,
        outputs: list[Any] | None = None,
    ) -> None:
        job = Job(self._names.namespace, self._names.name_job(node), facets=self._build_job_facets(node))
        event = RunEvent(
            eventType=state,
            eventTime=datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            run=Run(self._build_uuid(node), facets=facets),
            job=job,
            inputs=inputs or [],
            outputs=outputs or [],
            producer=PRODUCER,
        )
        self._client.emit(event)

    def _build_uuid(self, node: str) -> str:
        return str(generate_static_uuid(self._began, f"{self._names.name_job(node)} {self._run_id}".encode()))

    # --- facets ---------------------------------------------------------------------------------------------------

    def _build_run_facets(self) -> dict[str, RunFacet]:
        environment = self._planned.environment.name
        facets: dict[str, RunFacet] = {
            "processing_engine": make_facet(
                processing_engine_run.ProcessingEngineRunFacet,
                version=__version__,
                name="sqb",
                openlineageAdapterVersion=__version__,
            ),
            "sqb": make_facet(SqbRunFacet, run_id=self._run_id, target=self._project.target, environment=environment),
        }
        if (parent := _read_parent()) is not None:
            facets["parent"] = parent
        return facets

    def _build_node_facets(self, name: str, run_type: str, detail: str = "") -> dict[str, RunFacet]:
        planned = self._plan.get(name)
        facts = {
            "environment": self._planned.environment.name,
            "run_type": run_type,
            "reason": str(planned.reason) if planned is not None else "",
            "detail": detail or (planned.detail if planned is not None else ""),
        }
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(self._build_uuid("")),
            job=parent_run.Job(self._names.namespace, self._names.name_job()),
            root=_read_root(),
            producer=PRODUCER,
        )
        return {
            "parent": parent,
            "sqb": make_facet(SqbRunFacet, run_id=self._run_id, target=self._project.target, **facts),
        }

    def _build_job_facets(self, name: str) -> dict[str, JobFacet]:
        node = self._find_node(name) if name else None
        if node is None:
            return {"jobType": _build_job_type("RUN")}
        facets: dict[str, JobFacet] = {"jobType": _build_job_type(_JOB_TYPES.get(node.type, node.type.upper()))}
        if node.description:
            facets["documentation"] = make_facet(documentation_job.DocumentationJobFacet, description=node.description)
        if owner := node.settings.get("owner"):
            owners = [ownership_job.Owner(name=str(owner))]
            facets["ownership"] = make_facet(ownership_job.OwnershipJobFacet, owners=owners)
        if isinstance(node, Node) and node.type == "model" and not node.python:
            with suppress(SqbError):
                catalog = self._planned.workspace.connection.catalog.name
                query = render_query(node, build_live_names(self._project, catalog, {})).sql.strip()
                facets["sql"] = make_facet(sql_job.SQLJobFacet, query=query, dialect="spark")
        return facets

    def _build_error(self, message: str) -> RunFacet:
        hidden = self._planned.workspace.lake_location.hide(message)
        return make_facet(error_message_run.ErrorMessageRunFacet, message=hidden, programmingLanguage="SQL")


def _build_job_type(kind: str) -> JobFacet:
    return make_facet(job_type_job.JobTypeJobFacet, processingType="BATCH", integration="SQB", jobType=kind)


def _judge_run(end: RunEnd) -> tuple[RunState, str]:
    """How a run ended, and why it did not end well."""
    result = end.result
    if result is None:
        is_stopped = isinstance(end.error, KeyboardInterrupt)
        return (RunState.ABORT if is_stopped else RunState.FAIL), str(end.error or "the build ended early")
    if result.interrupted:
        return RunState.ABORT, "the build was interrupted"
    if result.ok:
        return RunState.COMPLETE, ""
    failed = [n.name for n in result.nodes if n.status == "failed"]
    tests = [t.test.name for t in result.tests if t.status == "failed"]
    blocked = [n.name for n in result.nodes if n.status == "blocked"]
    parts = (("failed", failed), ("unit tests failed", tests), ("blocked", blocked))
    return RunState.FAIL, "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def _read_parent() -> RunFacet | None:
    """The run that started this one, as orchestrators give it: OPENLINEAGE_PARENT_ID is namespace/job/run."""
    parts = _split_id("OPENLINEAGE_PARENT_ID")
    if parts is None:
        return None
    namespace, name, run = parts
    return parent_run.ParentRunFacet(
        run=parent_run.Run(run), job=parent_run.Job(namespace, name), root=_read_root(), producer=PRODUCER
    )


def _read_root() -> parent_run.Root | None:
    parts = _split_id("OPENLINEAGE_ROOT_PARENT_ID")
    if parts is None:
        return None
    namespace, name, run = parts
    return parent_run.Root(run=parent_run.RootRun(run), job=parent_run.RootJob(namespace, name))


def _split_id(variable: str) -> tuple[str, str, str] | None:
    namespace, _, rest = os.environ.get(variable, "").partition("/")
    name, _, run = rest.rpartition("/")
    return (namespace, name, run) if namespace and name and run else None
