"""`sqb plan NAME --explain`."""

from __future__ import annotations

import sys

from sqb.build.explain import explain
from sqb.build.explain_python import explain_hook, explain_python
from sqb.build.observe import Look
from sqb.cli.build import diffs_of, print_document
from sqb.console.explain import explain_lines
from sqb.console.lines import code_diff
from sqb.console.paint import Paint
from sqb.errors import CallError
from sqb.graph import select
from sqb.lake.iceberg import IcebergLake
from sqb.operations.documents import plan_document
from sqb.plan.values import Plan
from sqb.workspace import Workspace


def run_explain(
    workspace: Workspace, lake: IcebergLake, seen: Look, plan: Plan, names: tuple[str, ...], as_json: bool
) -> int:
    """Show one node of a plan in full."""
    hook = _the_hook(workspace, names)
    name = hook or _the_one(workspace, plan, names)
    diff = diffs_of(workspace, lake, plan).get(name, "") if not hook else ""
    if hook:
        found = explain_hook(name, plan, workspace.project, lake, seen, code_diff)
    elif name in workspace.project.python:
        found = explain_python(name, plan, workspace.project, lake, seen, diff)
    else:
        found = explain(name, plan, workspace, lake, seen, diff)
    if as_json:
        document = plan_document(plan)
        nodes = [found.planned.to_data()] if hook else [n for n in document["nodes"] if n["name"] == name]
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


def _the_hook(workspace: Workspace, names: tuple[str, ...]) -> str:
    """The hook that is meant, if one is: hooks stand beside the graph, where selectors do not find them."""
    word = names[0].removeprefix("hook:") if len(names) == 1 else ""
    node = workspace.project.python.get(word)
    return word if node is not None and node.type == "hook" else ""


def _the_one(workspace: Workspace, plan: Plan, names: tuple[str, ...]) -> str:
    """The node that is meant: the one named, else the only one in the plan."""
    project = workspace.project
    planned = [n.name for n in plan.nodes]
    chosen = select(project.graph, project.externals, names).names if names else ()
    meant = [n for n in project.graph if n in chosen] if names else _without_their_loaders(plan)
    if len(meant) != 1:
        few = ", ".join(meant[:5]) + (" …" if len(meant) > 5 else "")
        said = f"{len(meant)} are selected: {few}" if meant else "none is selected"
        raise CallError(f"--explain shows one node, and {said}", hint="name one: `sqb plan NAME --explain`")
    if meant[0] not in planned:
        raise CallError(f"{meant[0]} is not among the selected nodes", hint="leave --select and --exclude out")
    return meant[0]


def _without_their_loaders(plan: Plan) -> list[str]:
    """What is planned, without the loaders that go along with what reads their sources."""
    found = [n for n in plan.nodes if n.type != "loader"]
    return [n.name for n in found or plan.nodes]
