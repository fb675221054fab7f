"""Before a table is made anew: whether what it holds can be made again from what the sources still have."""

from __future__ import annotations

from typing import Any

from sqb.build.cursor_origin import cursor_origin
from sqb.build.kinds.log import replaces_foreign, text_at
from sqb.build.kinds.windows import Windows
from sqb.build.turn import Turn
from sqb.errors import DataLoss
from sqb.project.cursors import shown


def refuse_data_loss(turn: Turn, windows: Windows, staged: Any) -> None:
    """Refuse to publish rows that begin later than the table, when the sources do not reach so far any more."""
    from sqb.spark import cursors

    table = _rows_to_lose(turn, windows)
    if table is None:
        return
    there = cursors.reach(table, windows.column, windows.form)[0]
    here = cursors.reach(staged, windows.column, windows.form)[0]
    if there is None or (here is not None and here <= there):
        return
    count = _count_lost(windows, table, staged, here)
    if not count or _is_reached(turn, windows, there):
        return
    which = f"{count:,} rows" if count != 1 else "1 row"
    now = (
        f"what the sources give begins at {shown(here, windows.form)}" if here is not None else "the sources give none"
    )
    raise DataLoss(
        f"making the table anew would lose {which}: it begins at {shown(there, windows.form)}, and {now}",
        hint="--allow-data-loss makes it anew all the same; `replay_on_change: forward` keeps its rows",
    )


def _rows_to_lose(turn: Turn, windows: Windows) -> Any:
    """What the model's table holds; None when there is none, or may be lost, or has no such cursor."""
    from sqb.spark import cursors

    standing = turn.standing
    if turn.allow_data_loss or standing is None or standing.is_view or standing.snapshot_id is None:
        return None
    if replaces_foreign(turn):
        return None
    table = turn.session().sql(f"SELECT * FROM {text_at(turn)}")
    if windows.column.lower() not in {c.lower() for c in table.columns}:
        return None
    return table if cursors.form_of(table, windows.column)[0] == windows.form else None


def _count_lost(windows: Windows, table: Any, staged: Any, here: int | None) -> int:
    """The rows before the first that comes; of a table with a key, those whose key does not come."""
    from sqb.spark import cursors, keys

    rows = table.where(cursors.inside(windows.column, windows.form, None, here))
    key = windows.cursor.unique_key if windows.cursor.strategy == "merge" else ()
    present = {c.lower() for c in table.columns}
    if key and all(name.lower() in present for name in key):
        rows = keys.with_keys_of(rows, staged, key)[1]
    return int(rows.count())


def _is_reached(turn: Turn, windows: Windows, there: int) -> bool:
    """Whether the sources go back so far: then it is the query that has no such rows any more, as its author wants."""
    from sqb.spark import cursors

    origin = cursor_origin(turn.node, turn.project, turn.state_of)
    if origin is None:
        return False
    name, column = origin
    source = turn.session().sql(f"SELECT * FROM {turn.pinned(name)}")
    if cursors.form_of(source, column)[0] != windows.form:
        return False
    first = cursors.reach(source, column, windows.form)[0]
    return first is not None and first <= there
