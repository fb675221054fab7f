"""Columns that go with a plan and that models read: told before anything is published."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.places import locate_problem
from sqb.compile.model import Node, Project
from sqb.errors.queries import BreakingChange
from sqb.plan.node_columns import ProjectColumns, read_table_columns
from sqb.workspace import Workspace

# The columns that a node loses, in lower case.
Lost = Mapping[str, frozenset[str]]


def list_readers(project: Project, running: Collection[str]) -> frozenset[str]:
    """The models that read what runs and do not run themselves, also through views."""
    readers: set[str] = set()
    reached = set(running)
    for node in project:
        if node.name not in reached and any(name in reached for name in node.reads):
            readers.add(node.name)
            if node.kind == "view":
                reached.add(node.name)
    return frozenset(readers)


def find_lost_columns(
    workspace: Workspace, seen: LakeState, running: Collection[str], after: ProjectColumns
) -> dict[str, frozenset[str]]:
    """The columns that nodes have now and not when these have run, by the names of the nodes."""
    project, state_of = workspace.project, seen.observed.relations.get
    tables = {n.name: read_table_columns(n.relation, state_of) for n in project if n.name in running}
    built = {name: columns for name, columns in tables.items() if columns is not None}
    if not any(_list_lost(columns.names, after, name) for name, columns in built.items()):
        return {}
    # What views show now follows from the tables as they are.
    before = observe_columns(workspace, seen, frozenset()).columns
    names = {**{n.name: before[n.name].names for n in project}, **{n: c.names for n, c in built.items()}}
    lost = {name: _list_lost(columns, after, name) for name, columns in names.items()}
    return {name: columns for name, columns in lost.items() if columns}


def _list_lost(names: tuple[str, ...], after: ProjectColumns, node: str) -> frozenset[str]:
    columns = after.columns[node]
    if columns.is_open:
        return frozenset()
    return frozenset(name.lower() for name in names) - {name.lower() for name in columns.names}


def iter_breaking_changes(
    workspace: Workspace, node: Node, after: ProjectColumns, lost: Lost
) -> Iterator[BreakingChange]:
    """The places where a model reads a column that goes."""
    for problem in after.problems.get(node.name, ()):
        owner = next((name for name in node.reads if problem.column in lost.get(name, ())), None)
        if owner is None or problem.kind != "unknown column":
            continue
        file = workspace.project.nodes[owner].file
        yield BreakingChange(
            f'{node.name} reads the column "{problem.column}", which {owner} loses with this plan',
            at=locate_problem(workspace.root, node, problem),
            hint=f"keep the column in {file}, or take it out here; --allow-breaking goes on without",
        )
