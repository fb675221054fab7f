"""What changed in the definitions of the nodes of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqb.inspect.definitions import diff_code, diff_definitions, list_changed_nodes
from sqb.lake.port import Lake
from sqb.operations.environment import read_bound_definitions
from sqb.plan.model import Plan
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.environments.session import EnvironmentSession


def read_definition_diffs(
    workspace: Workspace, lake: Lake, plan: Plan, session: EnvironmentSession | None = None
) -> dict[str, str]:
    """How the definitions of nodes that changed differ from those that were built."""
    project = workspace.project
    names = list_changed_nodes(plan, project)
    if not names:
        return {}
    if session is not None:
        bound = read_bound_definitions(session)
        return {n: diff_definitions(bound[n], project.nodes[n].definition) for n in names if n in bound}
    schemas = {project.nodes[n].relation.schema if n in project.nodes else project.python[n].schema for n in names}
    rows = lake.state.read_fingerprints(sorted(schemas))
    stored = {row.node_name: row.definition for row in rows.values() if row.node_type != "test"}
    now = {n: (project.nodes.get(n) or project.python[n]).definition for n in names if n in stored}
    return {
        n: diff_code(stored[n], now[n]) if n in project.python else diff_definitions(stored[n], now[n]) for n in now
    }
