"""Where the values of a model's cursor come from, and whether that goes back as far as the model's table.

A full replay makes the table of an `incremental` model from what the sources have now. Where they have forgotten rows
that the table holds, those would be lost. The bounds of data files tell so without Spark, for a cursor whose values are
those of one column of one table, as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from sqb.build.observe import Look
from sqb.compiled import Node, Project
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer, TableState
from sqb.names import Relation
from sqb.plan.above import makes_rows
from sqb.plan.values import Plan, PlannedNode, Reason
from sqb.project.cursors import cursor_of
from sqb.sql.lineage import Lineage, lineage_of

# A table that is read, by its name in the project, and a column of it.
Origin = tuple[str, str]
StateOf = Callable[[str], TableState | None]
_NO_HISTORY = (Reason.FIRST_RUN, Reason.RELATION_MISSING)


def cursor_origin(node: Node, project: Project, state_of: StateOf) -> Origin | None:
    """The table, and its column, whose values the cursor of a model has as they are; None when there is none."""
    if node.unread or node.python:
        return None
    column = cursor_of(node.settings).column
    while True:
        found = _followed(node, column, project, state_of)
        if found is None or project.nodes.get(found[0]) is None or project.nodes[found[0]].kind != "view":
            return found
        node, column = project.nodes[found[0]], found[1]


def _followed(node: Node, column: str, project: Project, state_of: StateOf) -> Origin | None:
    outputs = [o for o in _lineage(node, project, state_of).outputs if o.name.lower() == column.lower()]
    if len(outputs) != 1 or not outputs[0].is_plain:
        return None
    slot, name = next(iter(outputs[0].origins))
    return node.reads[slot], name


def _lineage(node: Node, project: Project, state_of: StateOf) -> Lineage:
    columns = [_columns(name, project, state_of) for name in node.reads]
    return lineage_of(node.sql, node.slots, columns)


def _columns(name: str, project: Project, state_of: StateOf) -> Sequence[str] | None:
    node = project.nodes.get(name)
    if node is not None and node.kind == "view":
        lineage = _lineage(node, project, state_of) if not node.unread else Lineage(unknown=node.unread)
        return None if lineage.unknown or lineage.open else [o.name for o in lineage.outputs]
    state = state_of(name)
    return [c.name for c in state.columns] if state is not None and not state.is_view else None


# --- what a plan says ------------------------------------------------------------------------------------------------


def with_lost_history(plan: Plan, project: Project, lake: IcebergLake, seen: Look) -> Plan:
    """The plan, in which a full replay says so where the bounds of files tell that it would lose rows."""
    running = {n.name for n in plan.nodes if makes_rows(n)}
    wanted = [n for n in plan.nodes if n.name in running and _replays_all(n)]
    if not wanted:
        return plan
    pointers = lake.pointers()
    said = {n.name: _lost(n, project, lake, seen, pointers, running) for n in wanted}
    nodes = (replace(n, notices=(*n.notices, *said.get(n.name, ()))) for n in plan.nodes)
    return replace(plan, nodes=tuple(nodes))


def _replays_all(planned: PlannedNode) -> bool:
    is_full = planned.replay is not None and planned.replay["scope"] == "full"
    return is_full and planned.kind == "incremental" and planned.reason not in _NO_HISTORY


def _lost(
    planned: PlannedNode,
    project: Project,
    lake: IcebergLake,
    seen: Look,
    pointers: Mapping[Relation, Pointer],
    running: set[str],
) -> tuple[str, ...]:
    node = project.nodes[planned.name]
    named = {**{n.name: n.relation for n in project}, **seen.externals}
    origin = cursor_origin(node, project, lambda name: seen.states.get(named[name]) if name in named else None)
    if origin is None or origin[0] in running or project.loaders.get(origin[0]) in running:
        # What is made before it may reach further than what stands there now.
        return ()
    own = planned.prior.relation if planned.prior is not None else node.relation
    there = _smallest(lake, pointers.get(own), cursor_of(node.settings).column)
    here = _smallest(lake, pointers.get(named[origin[0]]), origin[1])
    if there is None or here is None or type(there) is not type(here) or here <= there:  # type: ignore[operator]
        return ()
    return (
        f"the table begins at {there}, and {origin[0]} only at {here}: "
        "a full replay that loses rows is refused without --allow-data-loss",
    )


def _smallest(lake: IcebergLake, pointer: Pointer | None, column: str) -> int | date | datetime | None:
    from sqb.lake.statistics import Untold  # pyiceberg is only loaded when something is made anew

    if pointer is None or pointer.is_view:
        return None
    try:
        found = lake.column_minimum(pointer, column)
    except Untold:
        return None
    return found if isinstance(found, int | date | datetime) else None
