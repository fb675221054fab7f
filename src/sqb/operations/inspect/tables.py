"""The tables that a query can read: built nodes and sources, with their columns. Starts no Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqb.build.observe.lake import observe_lake
from sqb.errors.call import UnknownTable
from sqb.lake.port import TableState
from sqb.names import suggest_nearest
from sqb.operations.environment import open_read_only
from sqb.types.format import format_sql_type
from sqb.types.iceberg import read_stored_type
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table, what it is called in queries, and the types of its columns."""

    name: str
    kind: str
    columns: Mapping[str, str]


def list_tables(workspace: Workspace, virtual_env: str | None) -> list[ReadableTable]:
    """The nodes that are built, and the sources that are there."""
    opened, lake = open_read_only(workspace, virtual_env, as_shown=True)
    seen, project = observe_lake(opened, lake), opened.project
    relations = {n.name: (n.kind, n.relation) for n in project}
    relations |= {name: ("source", e.relation) for name, e in project.externals.items()}
    return [
        ReadableTable(name, kind, _read_columns(seen.states[relation]))
        for name, (kind, relation) in relations.items()
        if relation in seen.states
    ]


def describe_table(workspace: Workspace, virtual_env: str | None, name: str) -> ReadableTable:
    """The table that a name means: that of a node, or its last part."""
    tables = list_tables(workspace, virtual_env)
    wanted = name.lower()
    for table in tables:
        if wanted in (table.name.lower(), table.name.lower().rpartition(".")[2]):
            return table
    hint = suggest_nearest(name, [n for t in tables for n in (t.name, t.name.rpartition(".")[2])])
    raise UnknownTable(f'nothing that is built is called "{name}"', hint=hint or "\\d lists what there is")


def _read_columns(state: TableState) -> dict[str, str]:
    return {c.name: format_sql_type(read_stored_type(c.type)) for c in state.columns}
