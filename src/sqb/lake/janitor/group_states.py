"""Figures of groups that no table needs any more: their table is gone, or its last commit names others."""

from __future__ import annotations

from collections.abc import Collection

from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation
from sqb.plan.recorded.group_state import build_state_relation, is_state_schema, parse_states


def find_unneeded_states(lake: IcebergLake, dropped: Collection[Relation]) -> list[Relation]:
    """The tables with figures that no table names; `dropped` are relations that count as gone.

    Only while no build runs: a build publishes the figures before the table that they belong to.
    """
    pointers = lake.list_pointers()
    states = lake.read_tables(p for r, p in pointers.items() if is_state_schema(r.schema))
    owners = {r: s.known_identity.group_state_of for r, s in states.items() if s.known_identity.group_state_of}
    current = {str(relation): p for relation, p in pointers.items() if relation not in dropped}
    tables = lake.read_tables(current[owner] for owner in set(owners.values()) if owner in current)
    named = {
        build_state_relation(relation, operator)
        for relation, table in tables.items()
        for operator, state in parse_states(table.known_identity.group_state).items()
        if state.is_kept
    }
    return [state for state, owner in owners.items() if owner not in current or state not in named]
