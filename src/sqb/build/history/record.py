"""The history of a run: what each node became, written in one batch when the build ends, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqb.build.context import BuildSettings
from sqb.build.events import NodeDone, WorkSpan
from sqb.build.python.fingerprints import build_python_fingerprints, build_retry_fingerprints
from sqb.build.udfs import build_function_fingerprints
from sqb.errors.base import SqbError
from sqb.lake.port import Lake, TableState
from sqb.lake.state.rows import Fingerprint, FreshnessRow, NodeResult
from sqb.names import Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as a whole: when it began, when Spark was started, how many nodes the plan had and how many were skipped.

    It is written beside each node that ran, since rows of the history go one by one.
    """

    began: float
    spark: WorkSpan | None
    nodes: int
    skipped: int

    def to_data(self) -> dict[str, Any]:
        spark = [round(self.spark.began, 3), round(self.spark.ended, 3)] if self.spark is not None else None
        return {"began": round(self.began, 3), "spark": spark, "nodes": self.nodes, "skipped": self.skipped}


class Recorder:
    """Writes fingerprints of what was built and results of what was tried."""

    def __init__(
        self,
        workspace: Workspace,
        lake: Lake,
        settings: BuildSettings,
        states: Mapping[Relation, TableState] | None = None,
    ) -> None:
        self.workspace, self.lake, self.settings = workspace, lake, settings
        # The state of each relation when the build has ended.
        self.states = states if states is not None else {}

    def write_history(
        self,
        done: Iterable[NodeDone],
        more: Iterable[Fingerprint] = (),
        sources: Callable[[], Iterable[FreshnessRow]] = tuple,
        last_ms: int = 0,
        run: RunRecord | None = None,
    ) -> SqbError | None:
        """Append this run's rows; the tables themselves hold the truth, so a failure here is only reported.

        `last_ms` is the time of the last commit to a table that the build knows.
        """
        # A node that skipped itself was run; one that was skipped for others was not.
        tried = [n for n in done if n.status in ("ok", "failed") or (n.skip and n.recorded)]
        project = self.workspace.project
        built = [project.nodes[n.planned.name] for n in tried if n.status == "ok" and n.planned.name in project.nodes]
        now = datetime.now(UTC)
        try:
            if last_ms / 1000 > now.timestamp():
                now = self._compute_timestamp(now, last_ms)
            models = [
                self._build_fingerprint(n, now) for n in tried if n.status == "ok" and n.planned.name in project.nodes
            ]
            used = build_function_fingerprints(project, built, self.settings.run_id, now)
            python = build_python_fingerprints(project, self.settings.run_id, tried, now)
            owed = build_retry_fingerprints(project, tried, self.lake.state.read_fingerprints, now)
            self.lake.state.append_fingerprints([*models, *used, *python, *owed, *more])
            self.lake.state.append_node_results([self._build_result(n, now, run) for n in tried])
            # Last of all: these sources count as consumed, and are not observed again.
            if rows := list(sources()):
                self.lake.state.append_freshness(rows)
        except SqbError as error:
            return error
        return None

    def _compute_timestamp(self, now: datetime, last_ms: int) -> datetime:
        """A time for the rows of a machine whose clock is behind: the latest row of a node is the one that counts."""
        schemas = sorted({n.relation.schema for n in self.workspace.project})
        written = (row.ts + timedelta(microseconds=1) for row in self.lake.state.read_fingerprints(schemas).values())
        return max(now, datetime.fromtimestamp(last_ms / 1000, UTC), *written)

    def _build_fingerprint(self, done: NodeDone, now: datetime) -> Fingerprint:
        node = self.workspace.project.nodes[done.planned.name]
        return Fingerprint(
            node_type=node.type,
            node_name=node.name,
            target_schema=node.relation.schema,
            target_name=node.relation.name,
            run_id=self.settings.run_id,
            local_hash=node.local_hash,
            version_hash=node.version_hash,
            schema_hash=state.columns_token if (state := self.states.get(node.relation)) is not None else "",
            definition=node.definition,
            metadata=_encode_metadata(done, self.settings.environment),
            ts=now,
        )

    def _build_result(self, done: NodeDone, now: datetime, run: RunRecord | None) -> NodeResult:
        planned = done.planned
        python = self.workspace.project.python.get(planned.name)
        schema = python.schema if python is not None else self.workspace.project.nodes[planned.name].relation.schema
        return NodeResult(
            node_type=planned.type,
            node_name=planned.name,
            target_schema=schema,
            run_id=self.settings.run_id,
            status=done.status,
            payload=done.payload,
            metadata=_encode_metadata(done, self.settings.environment, run),
            error_message=str(done.error) if done.error else "",
            ts=now,
        )


def _read_expected(done: NodeDone) -> dict[str, float]:
    """The seconds that were expected of the run, by the node's own past."""
    name = "refresh_seconds" if done.run_type == "incremental" else "rebuild_seconds"
    expected = (done.planned.incremental or {}).get(name)
    return {"expected_seconds": expected} if expected is not None else {}


# What is recorded of a check that does not hold: its rows are data, and are kept only with --store-failures.
_FINDING_KEYS = ("check", "role", "severity", "message", "violations")


def _encode_run(done: NodeDone, run: RunRecord | None) -> dict[str, Any]:
    """When the node ran and where, which of its checks did not hold, and the run that it was part of."""
    data: dict[str, Any] = {"run": run.to_data()} if run is not None else {}
    if done.span is not None:
        span = done.span
        data["span"] = {"began": round(span.began, 3), "ended": round(span.ended, 3), "worker": span.worker}
    if failures := done.list_failures():
        data["failures"] = [{key: failure.get(key) for key in _FINDING_KEYS} for failure in failures]
    return data


def _encode_metadata(done: NodeDone, environment: str, run: RunRecord | None = None) -> str:
    node_metadata = {"own": json.loads(done.metadata)} if done.metadata else {}
    skip = {"skip": done.skip} if done.skip else {}
    # Of a loader: the run whose rows stood in its table when it ran. Of a replay that failed: its window.
    recorded = {key: done.recorded[key] for key in ("after", "replay") if key in done.recorded}
    return json.dumps(
        {
            "kind": done.planned.kind,
            "relation": str(done.planned.relation) if done.planned.relation is not None else None,
            "run_type": done.run_type,
            "reason": str(done.planned.reason),
            "detail": done.detail,
            "rows": done.rows,
            "seconds": round(done.seconds, 3),
            **_read_expected(done),
            "snapshot_id": done.snapshot_id,
            "identical": done.identical,
            **_encode_run(done, run),
            **({"environment": environment} if environment else {}),
            **skip,
            **recorded,
            **node_metadata,
        }
    )
