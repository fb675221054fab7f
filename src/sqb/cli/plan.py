"""`sqb plan NAME --explain`."""

from __future__ import annotations

import sys

from sqb.build.observe.lake import LakeState
from sqb.cli.build import print_document, read_diffs
from sqb.console.documents import encode_plan
from sqb.console.explain import format_explanation
from sqb.console.lines import diff_code
from sqb.console.style import Paint
from sqb.errors.call import CallError
from sqb.graph import select
from sqb.inspect.explain import explain
from sqb.inspect.explain_python import explain_hook, explain_python
from sqb.lake.port import Lake
from sqb.plan.model import Plan
from sqb.workspace import Workspace


def run_explain(
    workspace: Workspace, lake: Lake, seen: LakeState, plan: Plan, names: tuple[str, ...], as_json: bool
) -> int:
    """Show one node of a plan in full."""
    hook = _find_hook(workspace, names)
    name = hook or _find_node(workspace, plan, names)
    diff = read_diffs(workspace, lake, plan).get(name, "") if not hook else ""
    if hook:
        explanation = explain_hook(name, plan, workspace.project, lake, seen, diff_code)
    elif name in workspace.project.python:
        explanation = explain_python(name, plan, workspace.project, lake, seen, diff)
    else:
        explanation = explain(name, plan, workspace, lake, seen, diff)
    if as_json:
        document = encode_plan(plan)
        nodes = [explanation.planned.to_data()] if hook else [n for n in document["nodes"] if n["name"] == name]
        changes = [c.to_data() for c in explanation.planned.changes] if explanation.planned.action == "run" else []
        nodes = [{**n, "changes": changes, "explain": explanation.to_data()} for n in nodes]
        print_document({**document, "nodes": nodes}, plan)
    else:
        paint = Paint(sys.stdout)
        for line in format_explanation(explanation, paint):
            print(line)
        for warning in plan.warnings:
            if warning.startswith((f"{name} ", f"{name}:")):
                print(paint(f"warning: {warning}", "yellow"))
    return 1 if explanation.planned.action == "blocked" else 0


def _find_hook(workspace: Workspace, names: tuple[str, ...]) -> str:
    """Find the named hook, if it is one: hooks are not in the graph, so selectors do not find them."""
    word = names[0].removeprefix("hook:") if len(names) == 1 else ""
    node = workspace.project.python.get(word)
    return word if node is not None and node.type == "hook" else ""


def _find_node(workspace: Workspace, plan: Plan, names: tuple[str, ...]) -> str:
    """The node that is meant: the one named, else the only one in the plan."""
    project = workspace.project
    planned = [n.name for n in plan.nodes]
    chosen = select(project.graph, project.externals, names).names if names else ()
    matches = [n for n in project.graph if n in chosen] if names else _list_non_loaders(plan)
    if len(matches) != 1:
        few = ", ".join(matches[:5]) + (" …" if len(matches) > 5 else "")
        count_text = f"{len(matches)} are selected: {few}" if matches else "none is selected"
        raise CallError(f"--explain shows one node, and {count_text}", hint="name one: `sqb plan NAME --explain`")
    if matches[0] not in planned:
        raise CallError(f"{matches[0]} is not among the selected nodes", hint="leave --select and --exclude out")
    return matches[0]


def _list_non_loaders(plan: Plan) -> list[str]:
    """What is planned, without the loaders that go along with what reads their sources."""
    nodes = [n for n in plan.nodes if n.type != "loader"]
    return [n.name for n in nodes or plan.nodes]
