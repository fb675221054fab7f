"""`incremental`: the rows of a window of the cursor are put into the table; what lies outside it is left alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from sqb.build.kinds.append_only import (
    evolve_columns,
    fit_columns,
    has_same_columns,
    is_started_over,
    may_change_layout,
)
from sqb.build.kinds.cursor_window import Window, WindowResolver
from sqb.build.kinds.data_loss import check_data_loss
from sqb.build.kinds.table import is_small, rebuild_table
from sqb.build.node.analyse import analyse_node
from sqb.build.node.context import NodeContext, NodeOutcome, WindowRows
from sqb.build.node.publish import confirm_rows, format_stage, open_stage, publish_or_confirm
from sqb.lake.port import Column
from sqb.names import quote
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.project.models.cursor import format_point


def build_incremental(context: NodeContext) -> NodeOutcome:
    """Make the table from its first window on, or go on with the window after what it holds."""
    session = context.session()
    frame, columns = analyse_node(context, session)
    windows = WindowResolver(context, session, frame)
    full = context.replay is not None and context.replay.scope == "full"
    if is_started_over(context) or full:
        return _build_first_window(context, session, windows, columns)
    return _build_next_window(context, session, windows, columns)


def _build_first_window(
    context: NodeContext, session: Any, windows: WindowResolver, columns: tuple[Column, ...]
) -> NodeOutcome:
    """Make the table from its first window; the staged rows are checked before they are published."""
    from sqb.spark.data import cursor as cursors
    from sqb.spark.data import keys

    window = windows.build_first()
    frame = windows.build_query(window)
    nulls = None
    if window.start is None and window.end is None:
        # All rows are read anyway; a count below the filter would keep a start from reaching the tables.
        frame, nulls = cursors.observe_nulls(frame, windows.column)
    rows = frame.where(windows.build_filter(window))
    key = list(windows.cursor.unique_key) if windows.cursor.strategy == "merge" else []
    keys.refuse_missing_columns(key, frame.columns, "unique_key")

    def look(session: Any, stage: str) -> WindowRows:
        staged = session.table(stage)
        windows.check_end(staged, window)
        if key:
            keys.refuse_bad_keys(staged, key)
        check_data_loss(context, windows, staged)
        return _describe_rows(context, windows, window, windows.compute_largest(staged))

    outcome = rebuild_table(context, session, rows, columns, look)
    lost = nulls() if nulls is not None else 0
    notices = (_format_left_out(lost, windows.column),) if lost else ()
    largest = outcome.state.known_identity.cursor_max if outcome.state is not None else ""
    detail = _format_detail(context, windows, window, largest)
    return replace(outcome, detail=detail, notices=(*outcome.notices, *notices))


def _format_left_out(count: int, column: str) -> str:
    which = f"{count} rows have" if count != 1 else "1 row has"
    return f"{which} NULL in {column}: what is in no window is left out"


def _describe_rows(context: NodeContext, windows: WindowResolver, window: Window, largest: int | None) -> WindowRows:
    """What is written beside the rows: how far they go, and what the next run has to know."""
    has_end = context.window is not None and context.window[1] is not None
    identity = CommitIdentity(
        cursor_max=format_point(largest, windows.form) if largest is not None else "",
        window=windows.format_window(window) if has_end else "",
        cursor_floor=format_point(window.floor, windows.form) if window.floor is not None else "",
    )
    replayed = windows.get_replayed_span(window, largest)
    if replayed is not None:
        context.report_replay(replayed)
    return WindowRows(identity, replayed)


def _format_detail(context: NodeContext, windows: WindowResolver, window: Window, largest: str) -> str:
    return "; ".join(x for x in (context.planned.detail, windows.format_window(window, largest or None)) if x)


@dataclass(frozen=True, slots=True)
class _RowMoves:
    """What a window does to a table: its own rows, the table's rows that go, and those that stay."""

    rows: Any
    going: Any
    staying: Any
    # Rows that the table has already are not added again.
    only_new: bool = False


def _compute_moves(windows: WindowResolver, window: Window, rows: Any, table: Any) -> _RowMoves:
    from sqb.spark.data import keys

    within = windows.build_filter(window)
    cursor = windows.cursor
    if cursor.strategy == "merge":
        key = list(cursor.unique_key)
        keys.refuse_bad_keys(rows, key)
        going, staying = keys.split_by_keys(table, rows, key)
        if window.replays:
            again = staying.where(within)
            going, staying = going.unionAll(again), staying.where(~within)
        return _RowMoves(rows, going, staying)
    if cursor.strategy == "append" and not window.replays:
        return _RowMoves(rows, table.where(within), table, only_new=True)
    return _RowMoves(rows, table.where(within), table.where(~within))


def _build_next_window(
    context: NodeContext, session: Any, windows: WindowResolver, columns: tuple[Column, ...]
) -> NodeOutcome:
    """Compute the rows of the next window, and apply what they change to the table by the cursor's strategy."""
    from sqb.spark.data import changes, keys
    from sqb.spark.data import cursor as cursors

    after = evolve_columns(context, session, columns)
    names = [c.name for c in after]
    if windows.cursor.strategy == "merge":
        keys.refuse_missing_columns(list(windows.cursor.unique_key), names, "unique_key")
    table = fit_columns(windows.read_table(), after)
    same = has_same_columns(context, session, after)
    window = windows.build_next(same)
    with ExitStack() as stack:
        selected = stack.enter_context(changes.persisted(windows.select_rows(window)))
        windows.check_end(selected, window)
        rows = fit_columns(selected, after)
        moves = _compute_moves(windows, window, rows, table)
        both = changes.with_multiplicity(rows, 1, names).unionAll(changes.with_multiplicity(moves.going, -1, names))
        change = changes.sum_changes(both, names)
        if moves.only_new:
            change = change.where(f"{changes.MULTIPLICITY} > 0")
        cached_change = stack.enter_context(changes.persisted(change))
        size = changes.MeasuredChange(cached_change, names, cursors.build_largest_columns(windows.column, windows.form))
        window_rows = _describe_rows(context, windows, window, _compute_largest(windows, moves, size))
        context = replace(context, window_rows=window_rows)
        outcome = _apply_change(context, session, cached_change, size, table, after, same)
    detail = _format_detail(context, windows, window, window_rows.identity.cursor_max)
    return replace(outcome, detail=detail, notices=(*outcome.notices, *windows.notices))


def _compute_largest(windows: WindowResolver, moves: _RowMoves, size: Any) -> int | None:
    """The largest value that the table will hold; it is only looked for where rows with the present one go."""
    from sqb.spark.data import cursor as cursors

    largest_added, largest_removed = (
        cursors.decode_point(size.aggregates[key], windows.form) for key in ("largest_added", "largest_removed")
    )
    top = windows.top
    if top is None or (largest_added is not None and largest_added >= top):
        return largest_added
    if largest_removed is None or largest_removed < top:
        return top
    candidates = [
        x for x in (windows.compute_largest(moves.staying), windows.compute_largest(moves.rows)) if x is not None
    ]
    return max(candidates, default=None)


def _apply_change(
    context: NodeContext, session: Any, change: Any, size: Any, table: Any, columns: tuple[Column, ...], same: bool
) -> NodeOutcome:
    """Publish a change of the table, whose columns may change with it."""
    from sqb.spark.data import changes, frames

    assert context.current is not None
    names = [c.name for c in columns]
    content = context.current.identity.content
    if not size.rows_added and not size.rows_removed and same and content and not may_change_layout(context):
        return confirm_rows(context, content, "incremental")
    if not same or not content.startswith("n:"):
        content = str(changes.compute_contents({"table": table})["table"])
    shape = context.build_shape(columns, keeps_rows=True)
    gone: list[str] | None = []
    rows = changes.expand_rows(change, 1, names)
    if size.rows_removed and same and context.current.snapshot_id is not None:
        at = context.current.snapshot_id
        gone, rows = changes.plan_change(session, context.format_relation(), at, change, names, is_small(context))
    elif size.rows_removed:
        # Files of other columns cannot be taken apart, so the table is written once in its new form.
        whole = changes.with_multiplicity(table, 1, names).unionAll(
            change.select(*[quote(n) for n in names], changes.MULTIPLICITY)
        )
        gone, rows = None, changes.expand_rows(changes.sum_changes(whole, names), 1, names)
    with open_stage(context, shape) as stage:
        frames.write_to_stage(session, rows, format_stage(context, stage), shape)
        context.announce("written", context.node.name)
        added, total = changes.expand_rows(change, 1, names), size.apply_to(content)
        return publish_or_confirm(
            context, stage, max(size.rows_added, size.rows_removed), total, gone, "incremental", added=added
        )
