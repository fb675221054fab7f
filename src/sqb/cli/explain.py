"""`sqb plan NAME --explain`."""

from __future__ import annotations

import sys

from sqb.build.explain import explain
from sqb.build.observe import Look
from sqb.cli.build import diffs_of, plan_document, print_document
from sqb.console.explain import explain_lines
from sqb.console.paint import Paint
from sqb.errors import CallError
from sqb.graph import select
from sqb.lake.jdbc import JdbcLake
from sqb.plan.values import Plan
from sqb.workspace import Workspace


def run_explain(
    workspace: Workspace, lake: JdbcLake, seen: Look, plan: Plan, names: tuple[str, ...], as_json: bool
) -> int:
    """Show one node of a plan in full."""
    name = _the_one(workspace, plan, names)
    found = explain(name, plan, workspace, lake, seen, diffs_of(workspace, lake, plan).get(name, ""))
    if as_json:
        document = plan_document(plan)
        nodes = [n for n in document["nodes"] if n["name"] == name]
        changes = [c.to_data() for c in found.planned.changes] if found.planned.action == "run" else []
        nodes = [{**n, "changes": changes, "explain": found.to_data()} for n in nodes]
        print_document({**document, "nodes": nodes}, plan)
    else:
        paint = Paint(sys.stdout)
        for line in explain_lines(found, paint):
            print(line)
        for warning in plan.warnings:
            if warning.startswith((f"{name} ", f"{name}:")):
                print(paint(f"warning: {warning}", "yellow"))
    return 1 if found.planned.action == "blocked" else 0


def _the_one(workspace: Workspace, plan: Plan, names: tuple[str, ...]) -> str:
    """The node that is meant: the one named, else the only one in the plan."""
    project = workspace.project
    planned = [n.name for n in plan.nodes]
    chosen = [n for n in project.nodes if n in select(project.nodes, project.externals, names).names]
    meant = chosen if names else planned
    if len(meant) != 1:
        few = ", ".join(meant[:5]) + (" …" if len(meant) > 5 else "")
        said = f"{len(meant)} are selected: {few}" if meant else "none is selected"
        raise CallError(f"--explain shows one node, and {said}", hint="name one: `sqb plan NAME --explain`")
    if meant[0] not in planned:
        raise CallError(f"{meant[0]} is not among the selected nodes", hint="leave --select and --exclude out")
    return meant[0]
