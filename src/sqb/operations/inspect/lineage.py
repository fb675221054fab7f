"""What tables and columns are made of, and what is made of them. Starts no Java."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqb.graph import find_reachable, reverse_edges
from sqb.inspect.lineage import Focus, LineageGraph, Ref, build_column_lookup, find_focus, trace_project
from sqb.operations.environment import open_read_only
from sqb.workspace import Workspace

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LineageOptions:
    """A table, a column (`model.column`), or the whole project."""

    name: str | None = None
    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The tables of a project, and what was asked about."""

    graph: LineageGraph
    focus: Focus

    def to_data(self) -> dict[str, Any]:
        """What `sqb lineage --json` prints: the tables in the order in which they are built."""
        part, focus = self.list_columns(), self.focus
        return {
            "target": self.graph.target,
            "focus": {"node": focus.node, "column": focus.column} if focus.node else None,
            "nodes": [
                {
                    "name": table.name,
                    "type": table.type,
                    "kind": table.kind,
                    "relation": str(table.relation) if table.relation is not None else None,
                    "file": table.file or None,
                    "upstream": [n for n in table.upstream if n in part],
                    "columns": [{"name": c, "from": _encode_refs(table.columns[c])} for c in part[name]],
                    "rows_from": _encode_refs(table.rows_from),
                    "unknown": table.unknown or None,
                    "owner": table.owner or None,
                    "group": table.group or None,
                    **({"url": table.url or None} if table.type == "exposure" else {}),
                }
                for name, table in self.graph.tables.items()
                if name in part
            ],
        }

    def list_columns(self) -> dict[str, list[str]]:
        """The tables that what is asked about leads to, up and down, each with the columns that count."""
        graph, focus = self.graph, self.focus
        if focus.node is None:
            return {name: list(table.columns) for name, table in graph.tables.items()}
        if focus.column is None:
            below = graph.map_downstream()
            names = {
                *collect_reachable(focus.node, lambda n: graph.tables[n].upstream),
                *collect_reachable(focus.node, below.__getitem__),
            }
            return {name: list(table.columns) for name, table in graph.tables.items() if name in names}
        ref = (focus.node, focus.column)
        refs = {*collect_reachable(ref, graph.get_origins), *collect_reachable(ref, graph.build_uses())}
        columns: dict[str, list[str]] = {name: [] for name, _ in refs}
        for name, table in graph.tables.items():
            columns |= {name: [c for c in table.columns if (name, c) in refs]} if name in columns else {}
        return columns


def trace_lineage(workspace: Workspace, options: LineageOptions) -> Lineage:
    """Trace what a table or column is made of and what it is used for, or the whole project."""
    opened, lake = open_read_only(workspace, options.virtual_env)
    project = opened.project
    columns = build_column_lookup(project, lake)
    focus = find_focus(options.name, project, lambda table: trace_project(project, columns, [table]).tables[table])
    tables = None
    if focus.node is not None:
        # What is below is only known when all that it reads is.
        tables = find_reachable(
            [focus.node], reverse_edges({n.name: n.upstream for n in project} | project.map_exposures())
        )
    return Lineage(trace_project(project, columns, tables), focus)


def collect_reachable(start: _T, step: Callable[[_T], Iterable[_T]]) -> list[_T]:
    """Everything that steps lead to, itself first."""
    reached: dict[_T, None] = {}
    stack = [start]
    while stack:
        current = stack.pop()
        if current not in reached:
            reached[current] = None
            stack.extend(step(current))
    return list(reached)


def _encode_refs(refs: Iterable[Ref]) -> list[dict[str, str]]:
    return [{"node": name, "column": column} for name, column in refs]
