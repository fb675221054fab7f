"""Before a table is made anew: whether what it holds can be made again from what the sources still have."""

from __future__ import annotations

from typing import Any

from sqb.build.kinds.append_only import format_current_version, is_replacing_foreign_table
from sqb.build.kinds.cursor_origin import find_cursor_origin
from sqb.build.kinds.cursor_window import WindowResolver
from sqb.build.node.context import NodeContext
from sqb.errors.build import DataLoss
from sqb.project.models.cursor import format_point


def check_data_loss(context: NodeContext, windows: WindowResolver, staged: Any) -> None:
    """Refuse to publish rows that begin later than the table, when the sources do not reach so far any more."""
    from sqb.spark.data import cursor

    table = _read_rows_at_risk(context)
    if table is None:
        return
    if not _has_cursor(windows, table):
        check_row_count(context, table, staged, f"the table has no column that fits the cursor {windows.column}")
        return
    table_start = cursor.compute_range(table, windows.column, windows.form)[0]
    here = cursor.compute_range(staged, windows.column, windows.form)[0]
    if table_start is None or (here is not None and here <= table_start):
        return
    count = _count_lost(windows, table, staged, here)
    if not count or _is_covered_by_sources(context, windows, table_start):
        return
    which = f"{count:,} rows" if count != 1 else "1 row"
    now = (
        f"what the sources give begins at {format_point(here, windows.form)}"
        if here is not None
        else "the sources give none"
    )
    raise DataLoss(
        f"rebuilding the table would lose {which}: it begins at {format_point(table_start, windows.form)}, and {now}",
        hint="--allow-data-loss rebuilds it anyway; `replay_on_change: forward` keeps its rows",
    )


def check_row_count(context: NodeContext, table: Any, rows: Any, why: str) -> None:
    """Refuse to publish fewer rows than the table holds, where `why` they cannot be compared one by one."""
    if context.allow_data_loss:
        return
    held, made = int(table.count()), int(rows.count())
    if made >= held:
        return
    which = f"{held - made:,} rows" if held - made != 1 else "1 row"
    raise DataLoss(
        f"rebuilding the table would lose at least {which}: it has {held:,}, and the query gives {made:,} ({why})",
        hint="--allow-data-loss rebuilds it anyway",
    )


def _read_rows_at_risk(context: NodeContext) -> Any:
    """What the model's table holds; None when there is none, or it may be lost."""
    current = context.current
    if context.allow_data_loss or current is None or current.is_view or current.snapshot_id is None:
        return None
    if is_replacing_foreign_table(context):
        return None
    return context.session().sql(f"SELECT * FROM {format_current_version(context)}")


def _has_cursor(windows: WindowResolver, table: Any) -> bool:
    """Whether the table has the cursor that the model has now, so that the two can be compared by it."""
    from sqb.spark.data import cursor

    if windows.column.lower() not in {c.lower() for c in table.columns}:
        return False
    return cursor.find_cursor_form(table, windows.column)[0] == windows.form


def _count_lost(windows: WindowResolver, table: Any, staged: Any, here: int | None) -> int:
    """The rows before the first that comes; of a table with a key, those whose key does not come."""
    from sqb.spark.data import cursor, keys

    rows = table.where(cursor.build_window_condition(windows.column, windows.form, None, here))
    key = windows.cursor.unique_key if windows.cursor.strategy == "merge" else ()
    present = {c.lower() for c in table.columns}
    if key and all(name.lower() in present for name in key):
        rows = keys.split_by_keys(rows, staged, key)[1]
    return int(rows.count())


def _is_covered_by_sources(context: NodeContext, windows: WindowResolver, table_start: int) -> bool:
    """Whether the sources go back so far: then it is the query that has no such rows any more, as its author wants."""
    from sqb.spark.data import cursor

    origin = find_cursor_origin(context.node, context.project, context.get_state)
    if origin is None:
        return False
    name, column = origin
    source = context.session().sql(f"SELECT * FROM {context.pinned(name)}")
    if cursor.find_cursor_form(source, column)[0] != windows.form:
        return False
    first = cursor.compute_range(source, column, windows.form)[0]
    return first is not None and first <= table_start
