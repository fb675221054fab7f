"""How much the tables that a node reads have changed since it read them, from the summaries of their snapshots.

Reads metadata files only, each once, and only those of tables that changed under a node that runs: no Spark and no
pyiceberg.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node, Project
from sqb.lake.metadata.history import compute_row_changes
from sqb.lake.port import Lake, PastSnapshot, Pointer
from sqb.names import Relation
from sqb.plan.model import DataChange, Plan
from sqb.plan.observed import Input, RelationState, find_version, is_same_version, list_inputs
from sqb.plan.upstream import is_producing_rows


class SnapshotHistories:
    """The snapshots of tables, each metadata file read at most once."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._pointers: Mapping[Relation, Pointer] | None = None
        self._cache: dict[Relation, Mapping[int, PastSnapshot]] = {}

    def get(self, relation: Relation) -> Mapping[int, PastSnapshot]:
        """The snapshots of a table, oldest first; none of a view or of what is not there."""
        if relation not in self._cache:
            if self._pointers is None:
                self._pointers = self.lake.list_pointers()
            pointer = self._pointers.get(relation)
            readable = pointer is not None and not pointer.is_view
            self._cache[relation] = self.lake.read_history(pointer) if pointer and readable else {}
        return self._cache[relation]


def add_data_changes(
    plan: Plan,
    project: Project,
    lake: Lake,
    lake_state: LakeState,
    shared_histories: SnapshotHistories | None = None,
) -> Plan:
    """The plan, in which every node that runs says how much the tables that it reads have changed."""
    histories = shared_histories or SnapshotHistories(lake)
    nodes = tuple(
        replace(n, changes=list_data_changes(project.nodes[n.name], project, lake_state, histories))
        if is_producing_rows(n) and n.type == "model" and n.kind != "view"
        else n
        for n in plan.nodes
    )
    return replace(plan, nodes=nodes)


def list_data_changes(
    node: Node, project: Project, lake_state: LakeState, histories: SnapshotHistories
) -> tuple[DataChange, ...]:
    """The tables beneath a node that have other rows than those it was built from; none when it was never built."""
    current = lake_state.observed.get(node)
    if current is None or not current.known_identity:
        return ()
    changes = (
        _compute_data_change(i, current, project, lake_state, histories)
        for i in list_inputs(node, project)
        if not i.view
    )
    return tuple(change for change in changes if change is not None)


def resolve_input_relation(upstream_input: Input, lake_state: LakeState) -> Relation | None:
    """The relation of an input, as the catalog spells it."""
    return (
        lake_state.externals.get(upstream_input.name, upstream_input.relation)
        if upstream_input.external
        else upstream_input.relation
    )


def _compute_data_change(
    upstream_input: Input, current: RelationState, project: Project, lake_state: LakeState, histories: SnapshotHistories
) -> DataChange | None:
    recorded = current.sources.get(upstream_input.key)
    now = find_version(upstream_input, project, lake_state.observed.relations)
    relation = resolve_input_relation(upstream_input, lake_state)
    if recorded is None or not recorded.is_table or now is None or relation is None or now.definition is not None:
        return None
    # Other columns alone do not mean other rows.
    if is_same_version(replace(recorded, columns=now.columns, schema_id=None, values=()), now):
        return None
    moved = compute_row_changes(histories.get(relation), recorded.snapshot_id, now.snapshot_id)
    estimated = moved.added is not None and not moved.exact
    return DataChange(upstream_input.name, moved.added, moved.removed, recorded.snapshot_id, now.snapshot_id, estimated)
