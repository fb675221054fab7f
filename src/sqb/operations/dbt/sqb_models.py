"""The sqb models beside dbt: planned with it, and built in their phases before and after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqb.build.spark_engine import OnDemandSpark
from sqb.dbt.checksums import compute_checksums, find_missing_checksums
from sqb.dbt.interleave import Border, Phase, exclude_nodes, find_blocked, merge_dbt_plan, plan_first_runs
from sqb.dbt.model import DbtPlan
from sqb.lake.open import open_lake
from sqb.operations.build import BuildOptions, build_project
from sqb.operations.dbt.listener import DbtListener
from sqb.operations.dbt.projects import DbtProjects
from sqb.operations.dbt.results import SqbPhaseResult
from sqb.operations.environment import open_environment
from sqb.operations.plan import PlanOptions, plan_environment
from sqb.plan.model import Plan, is_producing_rows
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SurroundingPlan:
    """The plan of the sqb models around dbt."""

    workspace: Workspace
    border: Border
    plan: Plan
    # Sources of dbt whose sqb models are to run, and those whose are blocked, with the message about it.
    pending: Mapping[str, str] = field(default_factory=dict)
    blocking: Mapping[str, str] = field(default_factory=dict)
    # Nodes that read dbt models which are not there yet, with the model.
    first: Mapping[str, str] = field(default_factory=dict)

    def merge_dbt_plan(self, dbt: DbtPlan) -> Plan:
        """The plan with what dbt is to run above it."""
        project = self.workspace.project
        plan = merge_dbt_plan(self.plan, project, self.border, dbt)
        return replace(plan, nodes=(*plan.nodes, *plan_first_runs(project, self.first, self.first)))


def plan_surrounding(projects: DbtProjects, listener: DbtListener) -> SurroundingPlan:
    """Plan the sqb models of all phases as if dbt had nothing to do."""
    workspace, border = projects.workspace, projects.border
    selected = {name for phase in projects.phases if phase.side == "sqb" for name in phase.names}
    if not selected:
        return SurroundingPlan(workspace, border, Plan(workspace.project.target, ()))
    reduced, first = _exclude_missing(workspace, border, {})
    names = tuple(name for name in reduced.project.graph if name in selected and name not in first)
    if not names:
        return SurroundingPlan(workspace, border, Plan(workspace.project.target, ()), first=first)
    spark = listener.create_spark(reduced)
    plan = plan_environment(open_environment(reduced, None), PlanOptions(names), spark).plan
    spark.stop()
    planned = {n.name: n for n in plan.nodes}
    sources = [(source, planned[name]) for source, name in border.from_sqb.items() if name in planned]
    return SurroundingPlan(
        workspace,
        border,
        plan,
        {source: f"{node.name} runs" for source, node in sources if is_producing_rows(node)},
        {source: f"{node.name} is blocked" for source, node in sources if node.action == "blocked"},
        {name: why for name, why in first.items() if name in selected},
    )


def _exclude_missing(
    workspace: Workspace, border: Border, blocked: Mapping[str, str]
) -> tuple[Workspace, dict[str, str]]:
    """The workspace without what reads dbt models that are not there, and all that cannot be built, with why.

    `blocked` are dbt models that are there and must not be read.
    """
    project = workspace.project
    existing = {str(r).lower() for r in open_lake(workspace).list_pointers()}
    missing = {e for e in border.from_dbt if str(project.externals[e].relation).lower() not in existing}
    reasons = {border.from_dbt[e]: "has not been built" for e in missing}
    waiting = find_blocked(project, border, {**reasons, **blocked})
    if missing:
        # An environment goes on showing what is left out here: only a build of everything removes views.
        workspace = replace(workspace, project=exclude_nodes(project, find_blocked(project, border, reasons), missing))
    return workspace, waiting


def build_phase(
    projects: DbtProjects, phase: Phase, failed: Mapping[str, str], listener: DbtListener
) -> SqbPhaseResult:
    """Build the sqb models of one phase, less those whose dbt models are not what they should be."""
    started_at = time.monotonic()
    workspace = projects.workspace
    reduced, waiting = _exclude_missing(workspace, projects.border, find_failed_upstreams(projects, failed))
    blocked = {name: why for name, why in waiting.items() if name in phase.names}
    listener.report_blocked(blocked)
    names = tuple(name for name in reduced.project.graph if name in phase.names and name not in blocked)
    if not names:
        return SqbPhaseResult(workspace, blocked)
    spark = listener.create_spark(reduced)
    _record_checksums(projects, reduced, names, spark)
    outcome = build_project(reduced, BuildOptions(names), spark, listener.listen_to)
    listener.report_build(outcome, phase is projects.phases[-1], time.monotonic() - started_at)
    return SqbPhaseResult(workspace, blocked, outcome)


def find_failed_upstreams(projects: DbtProjects, failed: Mapping[str, str]) -> dict[str, str]:
    """dbt nodes that sqb models must not be built on, with why: those that failed, and those whose tests did."""
    nodes = projects.project.nodes
    upstreams = {name: why for name, why in failed.items() if not nodes[name].is_test}
    for name, why in failed.items():
        if nodes[name].is_test and why == "failed":
            upstreams |= {parent: "has a test that failed" for parent in nodes[name].depends_on if parent in nodes}
    return upstreams


def _record_checksums(
    projects: DbtProjects, workspace: Workspace, names: tuple[str, ...], spark: OnDemandSpark
) -> None:
    """Let it be known what rows the dbt tables have that these nodes read, so that equal rows are one version."""
    border, externals, edges = projects.border, workspace.project.externals, workspace.project.list_edges()
    read = {border.from_dbt[r] for name in names for r in edges[name] if r in border.from_dbt and externals[r].dbt}
    missing = find_missing_checksums(projects.lake, projects.project, read)
    if missing:
        rows = compute_checksums(workspace.connection.catalog.name, missing, spark.session())
        projects.lake.state.append_fingerprints(rows)
