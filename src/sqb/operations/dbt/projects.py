"""The dbt project and the sqb project side by side: opened, observed, and the part of dbt planned."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqb.dbt.defer import DeferredRelations, read_deferred
from sqb.dbt.interleave import Border, Phase, find_border, plan_phases
from sqb.dbt.model import RUN_BY, DbtObserved, DbtPlan, DbtProject
from sqb.dbt.observe import observe_dbt
from sqb.dbt.plan import plan_dbt
from sqb.dbt.project.context import DbtContext
from sqb.dbt.project.selection import read_project
from sqb.errors.dbt import DbtRefused
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.operations.dbt.call import DbtCall
from sqb.operations.dbt.listener import DbtListener
from sqb.workspace import Workspace, open_workspace

# With these the sqb models around dbt are built too; the others are about dbt alone.
_WITH_SQB = ("build", "run")


@dataclass(frozen=True, slots=True)
class DbtProjects:
    """Both projects, and the border between them."""

    project: DbtProject
    selected: tuple[str, ...]
    workspace: Workspace
    lake: Lake
    border: Border
    phases: tuple[Phase, ...]
    deferred: DeferredRelations | None = None


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """What dbt is to run in one phase, out of `selected` resources."""

    verb: str
    plan: DbtPlan
    selected: int
    # What changed in nodes that run because they are others, where that is wanted.
    diffs: Mapping[str, str] = field(default_factory=dict)


def open_projects(call: DbtCall, listener: DbtListener) -> DbtProjects:
    """Open both projects, and find where one reads the other."""
    project, selected = read_project(call.dbt, call.selection, listener.report_progress)
    workspace = open_workspace(call.dbt.root, call.sqb_target)
    border = find_border(workspace.project, project, workspace.connection.catalog.name)
    phases = plan_phases(workspace.project, project, border, selected)
    if call.verb not in _WITH_SQB or call.empty:
        phases = [Phase("dbt", frozenset(name for phase in phases if phase.side == "dbt" for name in phase.names))]
    # With nothing to select from, dbt still has a plan to show.
    if not any(phase.side == "dbt" for phase in phases):
        phases = [*phases, Phase("dbt", frozenset())]
    run = {n for n in selected if n in project.nodes and project.nodes[n].resource_type in RUN_BY[call.verb]}
    # dbt takes the path of a state from its project on.
    place = DbtContext(project_dir=call.dbt.project_dir, catalog=call.dbt.catalog)
    deferred = read_deferred(call.defer_options, call.selection.state, place.project_dir, run, place.strip_catalog)
    return DbtProjects(project, selected, workspace, open_lake(workspace), border, tuple(phases), deferred)


def observe_projects(projects: DbtProjects, listener: DbtListener) -> DbtObserved:
    """Observe what dbt has built, and its sources."""
    spark = listener.create_spark(projects.workspace)
    try:
        return observe_dbt(projects.project, projects.lake, spark.session, projects.deferred)
    finally:
        spark.stop()


def plan_nodes(
    call: DbtCall, projects: DbtProjects, names: Iterable[str], observed: DbtObserved, listener: DbtListener
) -> tuple[DbtPlan, DbtObserved]:
    """The plan for these nodes; where only the compiled SQL tells whether they changed, dbt compiles it."""
    options = replace(call.options, selected=tuple(names))
    plan = plan_dbt(projects.project, observed, options)
    compiled: set[str] = set()
    while unknown := [name for name in plan.uncertain if name not in compiled]:
        compiled.update(unknown)
        listener.report_progress("Asking dbt for compiled SQL")
        same = observed.same_compiled | _find_same_compiled(call, projects, observed, unknown)
        observed = replace(observed, same_compiled=same)
        plan = plan_dbt(projects.project, observed, options)
    return plan, observed


def _find_same_compiled(call: DbtCall, projects: DbtProjects, observed: DbtObserved, names: Iterable[str]) -> set[str]:
    """Those of the nodes that compile to what they were built from."""
    from sqb.dbt.run import is_same_sql, read_compiled  # only for what was edited

    try:
        now = read_compiled(call.dbt, projects.project, names)
    except DbtRefused:
        # A model that asks the warehouse while it is compiled, or one that is wrong: dbt will tell when it runs.
        return set()
    stored = {name: observed.stored[name].compiled for name in now}
    return {name for name, text in now.items() if (then := stored[name]) is not None and is_same_sql(then, text)}


def read_diffs(call: DbtCall, projects: DbtProjects, plan: DbtPlan, observed: DbtObserved) -> dict[str, str]:
    """What changed in the nodes that run because they are others: in their files, or else in their compiled SQL."""
    from sqb.dbt.run import read_cached_compiled  # only -v shows differences

    now = read_cached_compiled(call.dbt, projects.project)
    diffs = {}
    for name in (n.unique_id for n in plan.filter_nodes("run") if n.reason == "checksum changed"):
        stored, node = observed.stored[name], projects.project.nodes[name]
        diffs[name] = _diff_texts(stored.code, node.code) or _diff_texts(stored.compiled, now.get(name))
    return {name: diff for name, diff in diffs.items() if diff}


def _diff_texts(then: str | None, now: str | None) -> str:
    """The unified difference of two texts; "" where one is unknown or there is none."""
    if then is None or now is None:
        return ""
    lines = difflib.unified_diff(then.splitlines(), now.splitlines(), "built", "now", lineterm="", n=3)
    return "\n".join(list(lines)[2:])
