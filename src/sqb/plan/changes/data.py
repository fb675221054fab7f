"""How much the tables that a node reads have changed since it read them, as a plan shows it."""

from __future__ import annotations

from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.plan.model import DataChange, PlannedNode, is_producing_rows
from sqb.plan.observed import Compared, Input, Observed, find_version, is_same_version, list_inputs


def has_data_changes(planned: PlannedNode) -> bool:
    """Whether a plan shows how much the tables changed that a node reads."""
    return is_producing_rows(planned) and planned.type == "model" and planned.kind != "view"


def list_moved_tables(node: Node, project: Project, observed: Observed) -> list[tuple[Input, Compared]]:
    """The tables that have other rows than those a node was built from; none when it was never built."""
    current = observed.get(node)
    if current is None or not current.known_identity:
        return []
    recorded, moved = current.sources, []
    for upstream_input in list_inputs(node, project):
        then, now = recorded.get(upstream_input.key), find_version(upstream_input, project, observed.relations)
        if upstream_input.view or then is None or not then.is_table or now is None or now.definition is not None:
            continue
        # Other columns alone do not mean other rows.
        if not is_same_version(replace(then, columns=now.columns, schema_id=None, values=()), now):
            moved.append((upstream_input, (upstream_input.key, then.snapshot_id, now.snapshot_id)))
    return moved


def list_data_changes(node: Node, project: Project, observed: Observed) -> tuple[DataChange, ...]:
    """How much the tables beneath a node have changed, as far as it was observed."""
    changes = []
    for upstream_input, pair in list_moved_tables(node, project, observed):
        if (change := observed.changes.get(pair)) is not None:
            rows = change.rows_added, change.rows_removed
            changes.append(DataChange(upstream_input.name, *rows, pair[1], pair[2], change.is_estimated))
    return tuple(changes)
