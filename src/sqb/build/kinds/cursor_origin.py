"""Where the values of a model's cursor come from, and whether that goes back as far as the model's table.

A full replay makes the table of an `incremental` model from what the sources have now. Where they have forgotten rows
that the table holds, those would be lost. The bounds of data files tell so without Spark, for a cursor whose values are
those of one column of one table, as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node, Project
from sqb.lake.port import Lake, NotInStatistics, Pointer, TableState
from sqb.names import Relation
from sqb.plan.model import Plan, PlannedNode, Reason, is_producing_rows
from sqb.project.models.cursor import build_cursor

if TYPE_CHECKING:
    from sqb.sql.analysis.lineage import Lineage

# A table that is read, by its name in the project, and a column of it.
Origin = tuple[str, str]
StateOf = Callable[[str], TableState | None]
_NO_HISTORY = (Reason.FIRST_RUN, Reason.RELATION_MISSING)


def find_cursor_origin(node: Node, project: Project, state_of: StateOf) -> Origin | None:
    """The table, and its column, whose values the cursor of a model has as they are; None when there is none."""
    if node.unread or node.python:
        return None
    column = build_cursor(node.settings).column
    while True:
        origin = _trace_column(node, column, project, state_of)
        if origin is None or project.nodes.get(origin[0]) is None or project.nodes[origin[0]].kind != "view":
            return origin
        node, column = project.nodes[origin[0]], origin[1]


def _trace_column(node: Node, column: str, project: Project, state_of: StateOf) -> Origin | None:
    outputs = [o for o in _analyse_lineage(node, project, state_of).outputs if o.name.lower() == column.lower()]
    if len(outputs) != 1 or not outputs[0].is_plain:
        return None
    slot, name = next(iter(outputs[0].origins))
    return node.reads[slot], name


def _analyse_lineage(node: Node, project: Project, state_of: StateOf) -> Lineage:
    from sqb.sql.analysis.lineage import trace_lineage  # loads sqlglot, which hardly any plan needs

    columns = [_list_columns(name, project, state_of) for name in node.reads]
    return trace_lineage(node.sql, node.slots, columns)


def _list_columns(name: str, project: Project, state_of: StateOf) -> Sequence[str] | None:
    node = project.nodes.get(name)
    if node is not None and node.kind == "view":
        lineage = _analyse_lineage(node, project, state_of) if not node.unread else None
        is_known = lineage is not None and not lineage.unknown_reason and not lineage.open_slots
        return [o.name for o in lineage.outputs] if lineage is not None and is_known else None
    state = state_of(name)
    return [c.name for c in state.columns] if state is not None and not state.is_view else None


# --- what a plan says ------------------------------------------------------------------------------------------------


def add_lost_history_notices(plan: Plan, project: Project, lake: Lake, lake_state: LakeState) -> Plan:
    """The plan, in which a full replay says so where the bounds of files tell that it would lose rows."""
    running = {n.name for n in plan.nodes if is_producing_rows(n)}
    full_replays = [n for n in plan.nodes if n.name in running and _is_full_replay(n)]
    if not full_replays:
        return plan
    pointers = lake.list_pointers()
    notices = {n.name: _format_lost_history(n, project, lake, lake_state, pointers, running) for n in full_replays}
    nodes = (replace(n, notices=(*n.notices, *notices.get(n.name, ()))) for n in plan.nodes)
    return replace(plan, nodes=tuple(nodes))


def _is_full_replay(planned: PlannedNode) -> bool:
    is_full = planned.replay is not None and planned.replay["scope"] == "full"
    return is_full and planned.kind == "incremental" and planned.reason not in _NO_HISTORY


def _format_lost_history(
    planned: PlannedNode,
    project: Project,
    lake: Lake,
    lake_state: LakeState,
    pointers: Mapping[Relation, Pointer],
    running: set[str],
) -> tuple[str, ...]:
    node = project.nodes[planned.name]
    named = {**{n.name: n.relation for n in project}, **lake_state.externals}
    origin = find_cursor_origin(
        node, project, lambda name: lake_state.states.get(named[name]) if name in named else None
    )
    if origin is None or origin[0] in running or project.loaders.get(origin[0]) in running:
        # A table that is built before this one may reach further than it does now.
        return ()
    own_relation = planned.prior.relation if planned.prior is not None else node.relation
    table_minimum = _read_column_minimum(lake, pointers.get(own_relation), build_cursor(node.settings).column)
    here = _read_column_minimum(lake, pointers.get(named[origin[0]]), origin[1])
    if table_minimum is None or here is None or type(table_minimum) is not type(here) or here <= table_minimum:  # type: ignore[operator]
        return ()
    return (
        f"the table begins at {table_minimum}, and {origin[0]} only at {here}: "
        "a full replay that loses rows is refused without --allow-data-loss",
    )


def _read_column_minimum(lake: Lake, pointer: Pointer | None, column: str) -> int | date | datetime | None:
    if pointer is None or pointer.is_view:
        return None
    try:
        minimum = lake.read_column_minimum(pointer, column)
    except NotInStatistics:
        return None
    return minimum if isinstance(minimum, int | date | datetime) else None
