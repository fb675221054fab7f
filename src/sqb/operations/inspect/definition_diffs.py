"""What changed in the definitions of the nodes of a plan."""

from __future__ import annotations

from sqb.inspect.definitions import diff_code, diff_definitions, list_changed_nodes
from sqb.operations.environment import BuildEnvironment
from sqb.plan.model import Plan
from sqb.workspace import Workspace


def read_definition_diffs(workspace: Workspace, environment: BuildEnvironment, plan: Plan) -> dict[str, str]:
    """How the definitions of nodes that changed differ from those that were built."""
    project = workspace.project
    names = list_changed_nodes(plan, project)
    if not names:
        return {}
    stored = environment.read_definitions(names)
    now = {n: (project.nodes.get(n) or project.python[n]).definition for n in names if n in stored}
    return {
        n: diff_code(stored[n], now[n]) if n in project.python else diff_definitions(stored[n], now[n]) for n in now
    }
