"""How much the tables that a node reads have changed since it read them, from the summaries of their snapshots.

Reads metadata files only, each once, and only those of tables that changed under a node that runs: no Spark and no
pyiceberg.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.build.observe import Look
from sqb.compiled import Node, Project
from sqb.lake.iceberg import IcebergLake
from sqb.lake.past import PastSnapshot, moved_between, past_of
from sqb.lake.port import Pointer
from sqb.names import Relation
from sqb.plan.above import makes_rows
from sqb.plan.observed import Input, Standing, inputs_of, same_version, version_of
from sqb.plan.values import DataChange, Plan


class Pasts:
    """The snapshots of tables, each metadata file read at most once."""

    def __init__(self, lake: IcebergLake) -> None:
        self.lake = lake
        self._pointers: Mapping[Relation, Pointer] | None = None
        self._known: dict[Relation, Mapping[int, PastSnapshot]] = {}

    def of(self, relation: Relation) -> Mapping[int, PastSnapshot]:
        """The snapshots of a table, oldest first; none of a view or of what is not there."""
        if relation not in self._known:
            if self._pointers is None:
                self._pointers = self.lake.pointers()
            pointer = self._pointers.get(relation)
            readable = pointer is not None and not pointer.is_view
            self._known[relation] = past_of(self.lake.document(pointer)) if pointer and readable else {}
        return self._known[relation]


def with_changes(plan: Plan, project: Project, lake: IcebergLake, seen: Look, pasts: Pasts | None = None) -> Plan:
    """The plan, in which every node that runs says how much the tables that it reads have changed."""
    found = pasts or Pasts(lake)
    nodes = tuple(
        replace(n, changes=changes_of(project.nodes[n.name], project, seen, found))
        if makes_rows(n) and n.type == "model" and n.kind != "view"
        else n
        for n in plan.nodes
    )
    return replace(plan, nodes=nodes)


def changes_of(node: Node, project: Project, seen: Look, pasts: Pasts) -> tuple[DataChange, ...]:
    """The tables beneath a node that have other rows than those it was built from; none when it was never built."""
    standing = seen.observed.of(node)
    if standing is None or not (standing.identity or standing.left):
        return ()
    found = (_change(i, standing, project, seen, pasts) for i in inputs_of(node, project) if not i.view)
    return tuple(change for change in found if change is not None)


def relation_of(found: Input, seen: Look) -> Relation | None:
    """Where an input stands, as the catalog spells it."""
    return seen.externals.get(found.name, found.relation) if found.external else found.relation


def _change(found: Input, standing: Standing, project: Project, seen: Look, pasts: Pasts) -> DataChange | None:
    recorded = standing.sources.get(found.key)
    now = version_of(found, project, seen.observed.relations)
    relation = relation_of(found, seen)
    if recorded is None or len(recorded) < 3 or now is None or relation is None or now.definition is not None:
        return None
    # Other columns alone are no other rows.
    if same_version([*recorded[:2], now.columns], now):
        return None
    moved = moved_between(pasts.of(relation), recorded[0], now.snapshot_id)
    estimated = moved.added is not None and not moved.exact
    return DataChange(found.name, moved.added, moved.removed, recorded[0], now.snapshot_id, estimated)
