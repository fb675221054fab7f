"""What commands of `sqb dbt` return."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqb.dbt.model import DbtPlan, DbtPlanned, DbtProject
from sqb.dbt.run import DbtResult, DbtRun
from sqb.operations.build import BuildOutcome
from sqb.operations.dbt.projects import PlannedPhase
from sqb.operations.documents import encode_plan
from sqb.plan.model import Plan
from sqb.workspace import Workspace

_STATUS = {"run": "ok", "skip": "skipped", "blocked": "blocked"}


@dataclass(frozen=True, slots=True)
class DbtPlanResult:
    """What dbt would run, and what sqb around it."""

    project: DbtProject
    planned: PlannedPhase
    sqb: Plan

    @property
    def is_blocked(self) -> bool:
        return bool(self.planned.plan.filter_nodes("blocked") or self.sqb.summary["blocked"])

    def to_data(self) -> dict[str, Any]:
        """What `sqb dbt plan --json` prints."""
        plan, diffs = self.planned.plan, self.planned.diffs
        nodes = [_encode_node(self.project, n, diffs.get(n.unique_id)) for n in plan.nodes]
        nodes += encode_plan(self.sqb)["nodes"]
        counts = {a: sum(n["action"] == a for n in nodes) for a in ("run", "skip", "blocked")}
        dbt = _encode_dbt(self.project, plan, self.planned.verb, self.planned.selected)
        return {"dbt": dbt, "nodes": nodes, "summary": counts}


@dataclass(frozen=True, slots=True)
class DbtPhaseResult:
    """What dbt ran in one phase."""

    plan: DbtPlan
    run: DbtRun
    seconds: float

    @property
    def ok(self) -> bool:
        run = self.run
        return not (run.failed or self.plan.filter_nodes("blocked") or run.code or run.interrupted)

    @property
    def not_built(self) -> dict[str, str]:
        """The nodes that are not what they should be, with why; failed tests included."""
        not_built = {n.unique_id: "is blocked" for n in self.plan.filter_nodes("blocked")}
        for name in self.plan.runs:
            result = self.run.results.get(name)
            if result is None or not result.ok:
                not_built[name] = "failed" if result is not None and result.failed else "did not run"
        return not_built


@dataclass(frozen=True, slots=True)
class SqbPhaseResult:
    """What sqb built in one phase; `blocked` are nodes whose dbt models are not what they should be, with why."""

    workspace: Workspace
    blocked: Mapping[str, str] = field(default_factory=dict)
    outcome: BuildOutcome | None = None

    @property
    def ok(self) -> bool:
        return not self.blocked and (self.outcome is None or self.outcome.result.ok)

    @property
    def interrupted(self) -> bool:
        return self.outcome is not None and self.outcome.result.interrupted

    @property
    def not_built(self) -> dict[str, str]:
        """The nodes that are not what they should be, with why."""
        nodes = self.outcome.result.nodes if self.outcome is not None else ()
        bad = [n for n in nodes if n.status in ("failed", "blocked")]
        return {**self.blocked, **{n.planned.name: f"{n.planned.name} {n.status}" for n in bad}}

    def list_nodes(self) -> list[dict[str, Any]]:
        """The nodes as `--json` prints them."""
        nodes = [_encode_blocked(self.workspace, name, why) for name, why in self.blocked.items()]
        return [*nodes, *(self.outcome.to_data()["nodes"] if self.outcome is not None else ())]


@dataclass(frozen=True, slots=True)
class DbtBuildResult:
    """What dbt ran, and what sqb built around it, phase by phase."""

    verb: str
    project: DbtProject
    selected: int
    dbt: tuple[DbtPhaseResult, ...]
    sqb: tuple[SqbPhaseResult, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return all(phase.ok for phase in self.dbt) and all(phase.ok for phase in self.sqb)

    @property
    def interrupted(self) -> bool:
        return any(phase.run.interrupted for phase in self.dbt) or any(phase.interrupted for phase in self.sqb)

    def to_data(self) -> dict[str, Any]:
        """What `sqb dbt build --json` prints."""
        nodes = [_encode_done(self.project, n, phase.run.results) for phase in self.dbt for n in phase.plan.nodes]
        nodes += [node for phase in self.sqb for node in phase.list_nodes()]
        counts: dict[str, Any] = {"ran": 0, "skipped": 0, "failed": 0, "blocked": 0}
        for node in nodes:
            counts["ran" if node["status"] == "ok" else node["status"]] += 1
        counts["seconds"] = round(self.seconds, 3)
        plan, run = (self.dbt[-1].plan, self.dbt[-1].run) if self.dbt else (DbtPlan(()), DbtRun())
        run = replace(run, commands=sum(phase.run.commands for phase in self.dbt))
        return {
            "dbt": _encode_dbt(self.project, plan, self.verb, self.selected, run),
            "nodes": nodes,
            "summary": counts,
        }


@dataclass(frozen=True, slots=True)
class DbtCompileResult:
    """How dbt's compilation ended, and where its files are."""

    exit_code: int
    interrupted: bool
    folder: Path

    @property
    def ok(self) -> bool:
        return not self.exit_code and not self.interrupted

    def to_data(self) -> dict[str, Any]:
        """What `sqb dbt compile --json` prints."""
        folder = os.path.relpath(self.folder)
        return {"dbt": {"command": "compile", "exit_code": self.exit_code, "folder": folder}}


def _encode_node(project: DbtProject, planned: DbtPlanned, diff: str | None = None) -> dict[str, Any]:
    """A node of the plan as `--json` prints it; with `-v` what changed in it."""
    node = project.nodes[planned.unique_id]
    difference = {"diff": diff} if diff else {}
    return {
        "name": planned.unique_id,
        "type": "dbt",
        "resource_type": planned.resource_type,
        "kind": node.materialized,
        "relation": str(node.relation) if node.relation is not None else None,
        "action": planned.action,
        "reason": planned.reason,
        "detail": planned.detail,
        "upstream": list(node.depends_on),
        **difference,
    }


def _encode_done(project: DbtProject, planned: DbtPlanned, results: Mapping[str, DbtResult]) -> dict[str, Any]:
    """A node of a build as `--json` prints it."""
    result = results.get(planned.unique_id)
    status, error, seconds = _STATUS[planned.action], None, 0.0
    if planned.action == "run":
        status = "ok" if result is not None and result.ok else "failed" if result and result.failed else "skipped"
        seconds = result.seconds if result is not None else 0.0
        error = result.message if result is not None and result.failed else None
    return {**_encode_node(project, planned), "status": status, "seconds": round(seconds, 3), "error": error}


def _encode_dbt(
    project: DbtProject, plan: DbtPlan, command: str, selected: int, run: DbtRun | None = None
) -> dict[str, Any]:
    """What `--json` says of the dbt project as a whole."""
    data: dict[str, Any] = {
        "project": project.name,
        "version": project.dbt_version,
        "command": command,
        "selected": selected,
        "full_refresh": plan.full_refresh,
        "notices": list(plan.notices),
    }
    return data if run is None else {**data, "commands": run.commands, "exit_code": run.code}


def _encode_blocked(workspace: Workspace, name: str, why: str) -> dict[str, Any]:
    node = workspace.project.graph[name]
    relation = str(workspace.project.nodes[name].relation) if name in workspace.project.nodes else None
    return {
        "name": name,
        "type": node.type,
        "kind": getattr(node, "kind", node.type),
        "relation": relation,
        "action": "blocked",
        "run_type": "skip",
        "reason": "Upstream failed",
        "detail": why,
        "status": "blocked",
        "rows": None,
        "seconds": 0.0,
        "error": None,
    }
