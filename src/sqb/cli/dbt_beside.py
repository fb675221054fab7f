"""The sqb models beside dbt: planned with it, and built in their turns before and after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqb.build.asking import Asker
from sqb.build.observe import open_lake
from sqb.cli.build import HowToRun, carry_out, new_asker, tell_built
from sqb.console.paint import Paint
from sqb.dbt.border import Border, Turn, first_after_dbt, held_back, with_dbt, without
from sqb.dbt.contents import content_rows, unknown_contents
from sqb.dbt.values import DbtPlan, DbtProject
from sqb.lake.iceberg import IcebergLake
from sqb.operations.documents import build_document
from sqb.operations.environment import Narrowed, entered_for, environment_to_build
from sqb.operations.planning import Wanted, plan_workspace
from sqb.plan.above import makes_rows
from sqb.plan.values import Plan
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Beside:
    """The plan of the sqb models around dbt."""

    workspace: Workspace
    border: Border
    plan: Plan
    # Sources of dbt whose sqb models are to run, and those whose are blocked, with what is said of it.
    pending: Mapping[str, str] = field(default_factory=dict)
    blocking: Mapping[str, str] = field(default_factory=dict)
    # Nodes that read dbt models which are not there yet, with the model.
    first: Mapping[str, str] = field(default_factory=dict)

    def below(self, dbt: DbtPlan) -> Plan:
        """The plan with what dbt is to run above it."""
        project = self.workspace.project
        plan = with_dbt(self.plan, project, self.border, dbt)
        return replace(plan, nodes=(*plan.nodes, *first_after_dbt(project, self.first, self.first)))


def plan_beside(workspace: Workspace, border: Border, turns: tuple[Turn, ...]) -> Beside:
    """Plan the sqb models of all turns as if dbt had nothing to do."""
    wanted = {name for turn in turns if turn.side == "sqb" for name in turn.names}
    if not wanted:
        return Beside(workspace, border, Plan(workspace.project.target, ()))
    reduced, first = _standing(workspace, border, {})
    names = tuple(name for name in reduced.project.graph if name in wanted and name not in first)
    if not names:
        return Beside(workspace, border, Plan(workspace.project.target, ()), first=first)
    made = plan_workspace(reduced, Wanted(names), new_asker(reduced), Narrowed(entered_for(reduced, None)))
    made.asker.stop()
    planned = {n.name: n for n in made.plan.nodes}
    sources = [(source, planned[name]) for source, name in border.from_sqb.items() if name in planned]
    return Beside(
        workspace,
        border,
        made.plan,
        {source: f"{node.name} runs" for source, node in sources if makes_rows(node)},
        {source: f"{node.name} is blocked" for source, node in sources if node.action == "blocked"},
        {name: why for name, why in first.items() if name in wanted},
    )


def _standing(workspace: Workspace, border: Border, held: Mapping[str, str]) -> tuple[Workspace, dict[str, str]]:
    """The workspace without what reads dbt models that are not there, and all that must wait, also for `held` ones."""
    project = workspace.project
    there = {str(r).lower() for r in open_lake(workspace).pointers()}
    missing = {e for e in border.from_dbt if str(project.externals[e].relation).lower() not in there}
    reasons = {border.from_dbt[e]: "has not been built" for e in missing}
    waiting = held_back(project, border, {**reasons, **held})
    if missing:
        # An environment goes on showing what is left out here: only a build of everything removes views.
        workspace = replace(workspace, project=without(project, held_back(project, border, reasons), missing))
    return workspace, waiting


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one turn of sqb."""

    nodes: list[dict[str, Any]]
    failed: Mapping[str, str]
    code: int = 0
    interrupted: bool = False


def build_beside(
    workspace: Workspace,
    lake: IcebergLake,
    dbt: DbtProject,
    border: Border,
    turn: Turn,
    held: Mapping[str, str],
    how: HowToRun,
    quiet: bool = False,
) -> Ended:
    """Build the sqb models of one turn, less those whose dbt models are not what they should be.

    With `quiet` nothing is said where nothing is to be done.
    """
    began = time.monotonic()
    reduced, waiting = _standing(workspace, border, held)
    waiting = {name: why for name, why in waiting.items() if name in turn.names}
    _tell_waiting(waiting, how)
    names = tuple(name for name in reduced.project.graph if name in turn.names and name not in waiting)
    nodes = [_waiting_data(workspace, name, why) for name, why in waiting.items()]
    if not names:
        return Ended(nodes, waiting, 1 if waiting else 0)
    asker = new_asker(reduced)
    _sum_up(reduced, lake, dbt, border, names, asker)
    with environment_to_build(reduced, None, False) as (entered, token):
        made = plan_workspace(reduced, Wanted(names), asker, Narrowed(entered))
        built = carry_out(made, how, began, entered, token)
        if how.as_json:
            nodes += build_document(made, built, entered)["nodes"]
            code = 0 if built.result.ok else 1
        elif quiet and made.plan.nothing_to_do and built.result.ok:
            code = 0
        else:
            code = tell_built(made, built, how, began, entered)
    bad = {
        n.planned.name: f"{n.planned.name} {n.status}" for n in built.result.nodes if n.status in ("failed", "blocked")
    }
    return Ended(nodes, {**waiting, **bad}, 1 if waiting else code, built.result.interrupted)


def _sum_up(
    workspace: Workspace, lake: IcebergLake, dbt: DbtProject, border: Border, names: tuple[str, ...], asker: Asker
) -> None:
    """Let it be known what rows the dbt tables have that these nodes read, so that equal rows are one version."""
    edges = workspace.project.edges()
    externals = workspace.project.externals
    read = {border.from_dbt[r] for name in names for r in edges[name] if r in border.from_dbt and externals[r].dbt}
    unknown = unknown_contents(lake, dbt, read)
    if unknown:
        lake.append_fingerprints(content_rows(workspace.connection.catalog.name, unknown, asker.session()))


def _tell_waiting(waiting: Mapping[str, str], how: HowToRun) -> None:
    paint = Paint(sys.stdout)
    for name, why in waiting.items() if not how.as_json else ():
        print(f"{paint('[SKIP]', 'yellow')} {name} ({why})")


def _waiting_data(workspace: Workspace, name: str, why: str) -> dict[str, Any]:
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
