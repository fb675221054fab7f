"""The SQL of models with references resolved. Starts no Java, and builds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqb.build.node.render import build_live_names, render_query
from sqb.compile.model import Node
from sqb.operations.environment import open_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Which nodes are compiled, and for which environment."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    virtual_env: str | None = None
    selector: str | None = None


@dataclass(frozen=True, slots=True)
class CompiledNodes:
    """The selected nodes, and the SQL of those that are SQL models."""

    target: str
    nodes: tuple[Node, ...]
    sql: Mapping[str, str]

    def to_data(self) -> dict[str, Any]:
        """What `sqb compile --json` prints."""
        rows = [
            {
                "name": n.name,
                "type": n.type,
                "kind": n.kind,
                "relation": str(n.relation),
                "file": n.file,
                "upstream": list(n.upstream),
                "sql": self.sql.get(n.name),
            }
            for n in self.nodes
        ]
        return {"target": self.target, "nodes": rows}


def compile_nodes(workspace: Workspace, options: CompileOptions) -> CompiledNodes:
    """Render the queries of the selected models."""
    environment = open_environment(workspace, options.virtual_env)
    opened = environment.workspace
    project = opened.project
    chosen = select_nodes(environment, Wanted(options.select, options.exclude, options.selector), project.nodes).names
    names = build_live_names(project, opened.connection.catalog.name, {})
    nodes = tuple(n for n in project if n.name in chosen)
    sql = {n.name: render_query(n, names).sql.strip() for n in nodes if n.type == "model" and not n.python}
    return CompiledNodes(project.target, nodes, sql)
