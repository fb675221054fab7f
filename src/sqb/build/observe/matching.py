"""How many rows of a large table lie where changed rows of another can belong to them, as statistics of files tell."""

from __future__ import annotations

from functools import cache, partial

from sqb.lake.port import ColumnRanges, Lake
from sqb.names import Relation
from sqb.plan.refresh.choose import Obstacle, RefreshCase, resolve_tables
from sqb.plan.refresh.matching import list_joined_tables
from sqb.sql.delta.operators.model import Origin


def count_matching_rows(lake: Lake, case: RefreshCase) -> dict[tuple[Origin, Origin], int]:
    """The rows of large tables that may match changed rows, by the columns that are compared."""
    tables = resolve_tables(case)
    if isinstance(tables, Obstacle):
        return {}
    # A query may read a table many times: its manifests are read once for each column.
    find_ranges, count_rows = cache(partial(_find_ranges, lake)), cache(lake.count_rows_in_ranges)
    counts = {}
    for joined in list_joined_tables(case, tables):
        old, new = joined.changed.old, _get_snapshot(case, joined.changed.index)
        now = _get_snapshot(case, joined.table.index)
        if old is None or new is None or now is None:
            continue
        ranges = find_ranges(joined.changed.relation, old, new, joined.by)
        rows = count_rows(joined.table.relation, now, joined.column, ranges) if ranges else None
        if rows is not None:
            counts[joined.key] = rows
    return counts


def _find_ranges(lake: Lake, relation: Relation, old: int, new: int, column: str) -> ColumnRanges | None:
    return lake.find_changed_ranges(relation, old, new, [column]).get(column)


def _get_snapshot(case: RefreshCase, slot: int) -> int | None:
    state = case.query.tables[slot].state
    return state.version.snapshot_id if state is not None else None
