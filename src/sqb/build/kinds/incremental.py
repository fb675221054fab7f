"""`incremental`: the rows of a window of the cursor are put into the table; what lies outside it is left alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from sqb.build.contracts import analysed
from sqb.build.kinds.data_loss import refuse_data_loss
from sqb.build.kinds.log import evolved, fitted, may_be_laid_out_anew, same_columns, starts_anew
from sqb.build.kinds.table import is_small, rebuild
from sqb.build.kinds.windows import FLOOR, Window, Windows
from sqb.build.publish import keep_rows, publish_or_keep, stage_for, stage_text
from sqb.build.turn import Outcome, Turn
from sqb.lake.port import Column
from sqb.names import quote
from sqb.plan.replaying import CURSOR_MAX, WINDOW
from sqb.project.cursors import shown


def build_incremental(turn: Turn) -> Outcome:
    """Make the table from its first window on, or go on with the window after what it holds."""
    session = turn.session()
    frame, columns = analysed(turn, session)
    windows = Windows(turn, session, frame)
    full = turn.replay is not None and turn.replay.scope == "full"
    if starts_anew(turn) or full:
        return _begin(turn, session, windows, columns)
    return _go_on(turn, session, windows, columns)


def _begin(turn: Turn, session: Any, windows: Windows, columns: tuple[Column, ...]) -> Outcome:
    from sqb.spark import cursors, keys

    window = windows.first()
    frame = windows.query(window)
    nulls = None
    if window.start is None and window.end is None:
        # All rows are read anyway; a count below the filter would keep a start from reaching the tables.
        frame, nulls = cursors.counting_nulls(frame, windows.column)
    rows = frame.where(windows.inside(window))
    key = list(windows.cursor.unique_key) if windows.cursor.strategy == "merge" else []
    keys.refuse_missing_columns(key, frame.columns, "unique_key")

    def look(session: Any, stage: str) -> None:
        staged = session.table(stage)
        windows.refuse_cut(staged, window)
        if key:
            keys.refuse_bad_keys(staged, key)
        refuse_data_loss(turn, windows, staged)
        _say(turn, windows, window, cursors.reach(staged, windows.column, windows.form)[1])

    outcome = rebuild(turn, session, rows, columns, look)
    lost = nulls() if nulls is not None else 0
    notices = (_left_out(lost, windows.column),) if lost else ()
    return replace(outcome, detail=_detail(turn, windows, window), notices=(*outcome.notices, *notices))


def _left_out(count: int, column: str) -> str:
    which = f"{count} rows have" if count != 1 else "1 row has"
    return f"{which} NULL in {column}: what is in no window is left out"


def _say(turn: Turn, windows: Windows, window: Window, largest: int | None) -> None:
    """Write beside the rows how far they go, and what the next run has to know."""
    if largest is not None:
        turn.said[CURSOR_MAX] = shown(largest, windows.form)
    if turn.window is not None and turn.window[1] is not None:
        turn.said[WINDOW] = windows.text(window)
    span = windows.replayed(window, largest)
    if span is not None:
        turn.spans[:] = [span]
    if window.floor is not None:
        turn.said[FLOOR] = shown(window.floor, windows.form)


def _detail(turn: Turn, windows: Windows, window: Window) -> str:
    largest = turn.said.get(CURSOR_MAX)
    return "; ".join(x for x in (turn.planned.detail, windows.text(window, largest)) if x)


@dataclass(frozen=True, slots=True)
class _Moves:
    """What a window does to a table: its own rows, the table's rows that go, and those that stay."""

    rows: Any
    going: Any
    staying: Any
    # Rows that the table has already are not added again.
    only_new: bool = False


def _moves(windows: Windows, window: Window, rows: Any, table: Any) -> _Moves:
    from sqb.spark import keys

    within = windows.inside(window)
    cursor = windows.cursor
    if cursor.strategy == "merge":
        key = list(cursor.unique_key)
        keys.refuse_bad_keys(rows, key)
        going, staying = keys.with_keys_of(table, rows, key)
        if window.replays:
            again = staying.where(within)
            going, staying = going.unionAll(again), staying.where(~within)
        return _Moves(rows, going, staying)
    if cursor.strategy == "append" and not window.replays:
        return _Moves(rows, table.where(within), table, only_new=True)
    return _Moves(rows, table.where(within), table.where(~within))


def _go_on(turn: Turn, session: Any, windows: Windows, columns: tuple[Column, ...]) -> Outcome:
    from sqb.spark import changes, cursors, keys

    after = evolved(turn, session, columns)
    names = [c.name for c in after]
    if windows.cursor.strategy == "merge":
        keys.refuse_missing_columns(list(windows.cursor.unique_key), names, "unique_key")
    table = fitted(windows.table(), after)
    same = same_columns(turn, session, after)
    window = windows.next(same)
    with ExitStack() as stack:
        found = stack.enter_context(changes.kept(windows.rows(window)))
        windows.refuse_cut(found, window)
        rows = fitted(found, after)
        moves = _moves(windows, window, rows, table)
        both = changes.signed(rows, 1, names).unionAll(changes.signed(moves.going, -1, names))
        change = changes.net(both, names)
        if moves.only_new:
            change = change.where(f"{changes.TIMES} > 0")
        kept = stack.enter_context(changes.kept(change))
        size = changes.Measured(kept, names, cursors.largest_moved(windows.column, windows.form))
        _say(turn, windows, window, _largest(windows, moves, size))
        outcome = _apply(turn, session, kept, size, table, after, same)
    return replace(outcome, detail=_detail(turn, windows, window), notices=(*outcome.notices, *windows.notices))


def _largest(windows: Windows, moves: _Moves, size: Any) -> int | None:
    """The largest value that the table will hold; it is only looked for where rows with the present one go."""
    from sqb.spark import cursors

    came, went = (cursors.point_of(size.found[key], windows.form) for key in ("largest_came", "largest_went"))
    top = windows.top
    if top is None or (came is not None and came >= top):
        return came
    if went is None or went < top:
        return top
    found = [x for x in (windows.largest(moves.staying), windows.largest(moves.rows)) if x is not None]
    return max(found, default=None)


def _apply(
    turn: Turn, session: Any, change: Any, size: Any, table: Any, columns: tuple[Column, ...], same: bool
) -> Outcome:
    """Publish a change of the table, whose columns may change with it."""
    from sqb.spark import changes, frames

    assert turn.standing is not None
    names = [c.name for c in columns]
    content = turn.standing.identity.get("sqb.content", "")
    if not size.came and not size.went and same and content and not may_be_laid_out_anew(turn):
        return keep_rows(turn, content, "incremental")
    if not same or not content.startswith("n:"):
        content = str(changes.contents({"table": table})["table"])
    shape = turn.shape(columns, keeps_rows=True)
    gone: list[str] | None = []
    rows = changes.rows_of(change, 1, names)
    if size.went and same and turn.standing.snapshot_id is not None:
        at = turn.standing.snapshot_id
        gone, rows = changes.exchanged(session, turn.relation_text(), at, change, names, is_small(turn))
    elif size.went:
        # Files of other columns cannot be taken apart, so the table is written once in its new form.
        whole = changes.signed(table, 1, names).unionAll(change.select(*[quote(n) for n in names], changes.TIMES))
        gone, rows = None, changes.rows_of(changes.net(whole, names), 1, names)
    with stage_for(turn, shape) as stage:
        frames.write_to_stage(session, rows, stage_text(turn, stage), shape)
        turn.announce("written", turn.node.name)
        added, total = changes.rows_of(change, 1, names), size.applied(content)
        return publish_or_keep(turn, stage, max(size.came, size.went), total, gone, "incremental", added=added)
