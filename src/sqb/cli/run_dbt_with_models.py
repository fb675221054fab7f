"""The sqb models beside dbt: planned with it, and built in their turns before and after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.build import CommandOptions, create_spark, execute_plan, print_result
from sqb.console.documents import encode_build
from sqb.console.style import Paint
from sqb.dbt.checksums import compute_checksums, find_missing_checksums
from sqb.dbt.interleave import Border, Phase, exclude_nodes, find_blocked, merge_dbt_plan, plan_first_runs
from sqb.dbt.model import DbtPlan, DbtProject
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.operations.environment import EnvironmentSelection, lock_environment_for_build, open_environment
from sqb.operations.plan import PlanRequest, plan_workspace
from sqb.plan.model import Plan
from sqb.plan.upstream import is_producing_rows
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SurroundingPlan:
    """The plan of the sqb models around dbt."""

    workspace: Workspace
    border: Border
    plan: Plan
    # Sources of dbt whose sqb models are to run, and those whose are blocked, with what is said of it.
    pending: Mapping[str, str] = field(default_factory=dict)
    blocking: Mapping[str, str] = field(default_factory=dict)
    # Nodes that read dbt models which are not there yet, with the model.
    first: Mapping[str, str] = field(default_factory=dict)

    def merge_dbt_plan(self, dbt: DbtPlan) -> Plan:
        """The plan with what dbt is to run above it."""
        project = self.workspace.project
        plan = merge_dbt_plan(self.plan, project, self.border, dbt)
        return replace(plan, nodes=(*plan.nodes, *plan_first_runs(project, self.first, self.first)))


def plan_surrounding(workspace: Workspace, border: Border, phases: tuple[Phase, ...]) -> SurroundingPlan:
    """Plan the sqb models of all turns as if dbt had nothing to do."""
    selected = {name for phase in phases if phase.side == "sqb" for name in phase.names}
    if not selected:
        return SurroundingPlan(workspace, border, Plan(workspace.project.target, ()))
    reduced, first = _exclude_missing(workspace, border, {})
    names = tuple(name for name in reduced.project.graph if name in selected and name not in first)
    if not names:
        return SurroundingPlan(workspace, border, Plan(workspace.project.target, ()), first=first)
    planned_workspace = plan_workspace(
        reduced, PlanRequest(names), create_spark(reduced), EnvironmentSelection(open_environment(reduced, None))
    )
    planned_workspace.spark.stop()
    planned = {n.name: n for n in planned_workspace.plan.nodes}
    sources = [(source, planned[name]) for source, name in border.from_sqb.items() if name in planned]
    return SurroundingPlan(
        workspace,
        border,
        planned_workspace.plan,
        {source: f"{node.name} runs" for source, node in sources if is_producing_rows(node)},
        {source: f"{node.name} is blocked" for source, node in sources if node.action == "blocked"},
        {name: why for name, why in first.items() if name in selected},
    )


def _exclude_missing(
    workspace: Workspace, border: Border, blocked: Mapping[str, str]
) -> tuple[Workspace, dict[str, str]]:
    """The workspace without what reads dbt models that are not there, and all that must wait, also for `held` ones."""
    project = workspace.project
    existing = {str(r).lower() for r in open_lake(workspace).list_pointers()}
    missing = {e for e in border.from_dbt if str(project.externals[e].relation).lower() not in existing}
    reasons = {border.from_dbt[e]: "has not been built" for e in missing}
    waiting = find_blocked(project, border, {**reasons, **blocked})
    if missing:
        # An environment goes on showing what is left out here: only a build of everything removes views.
        workspace = replace(workspace, project=exclude_nodes(project, find_blocked(project, border, reasons), missing))
    return workspace, waiting


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """What became of one turn of sqb."""

    nodes: list[dict[str, Any]]
    failed: Mapping[str, str]
    code: int = 0
    interrupted: bool = False


def build_phase(
    workspace: Workspace,
    lake: Lake,
    dbt: DbtProject,
    border: Border,
    phase: Phase,
    blocked: Mapping[str, str],
    options: CommandOptions,
    quiet: bool = False,
) -> PhaseResult:
    """Build the sqb models of one turn, less those whose dbt models are not what they should be.

    With `quiet` nothing is printed where nothing is to be done.
    """
    started_at = time.monotonic()
    reduced, waiting = _exclude_missing(workspace, border, blocked)
    waiting = {name: why for name, why in waiting.items() if name in phase.names}
    _print_waiting(waiting, options)
    names = tuple(name for name in reduced.project.graph if name in phase.names and name not in waiting)
    nodes = [_encode_waiting(workspace, name, why) for name, why in waiting.items()]
    if not names:
        return PhaseResult(nodes, waiting, 1 if waiting else 0)
    spark = create_spark(reduced)
    _record_checksums(reduced, lake, dbt, border, names, spark)
    with lock_environment_for_build(reduced, None, False) as (session, token):
        planned = plan_workspace(reduced, PlanRequest(names), spark, EnvironmentSelection(session))
        outcome = execute_plan(planned, options, started_at, session, token)
        if options.as_json:
            nodes += encode_build(planned, outcome, session)["nodes"]
            code = 0 if outcome.result.ok else 1
        elif quiet and planned.plan.nothing_to_do and outcome.result.ok:
            code = 0
        else:
            code = print_result(planned, outcome, options, started_at, session)
    bad = {
        n.planned.name: f"{n.planned.name} {n.status}"
        for n in outcome.result.nodes
        if n.status in ("failed", "blocked")
    }
    return PhaseResult(nodes, {**waiting, **bad}, 1 if waiting else code, outcome.result.interrupted)


def _record_checksums(
    workspace: Workspace,
    lake: Lake,
    dbt: DbtProject,
    border: Border,
    names: tuple[str, ...],
    spark: OnDemandSpark,
) -> None:
    """Let it be known what rows the dbt tables have that these nodes read, so that equal rows are one version."""
    edges = workspace.project.list_edges()
    externals = workspace.project.externals
    read = {border.from_dbt[r] for name in names for r in edges[name] if r in border.from_dbt and externals[r].dbt}
    missing = find_missing_checksums(lake, dbt, read)
    if missing:
        lake.state.append_fingerprints(compute_checksums(workspace.connection.catalog.name, missing, spark.session()))


def _print_waiting(waiting: Mapping[str, str], options: CommandOptions) -> None:
    paint = Paint(sys.stdout)
    for name, why in waiting.items() if not options.as_json else ():
        print(f"{paint('[SKIP]', 'yellow')} {name} ({why})")


def _encode_waiting(workspace: Workspace, name: str, why: str) -> dict[str, Any]:
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
