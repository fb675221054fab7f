"""`scd2`: history. The current rows are the query's result; a row that changes or goes is closed and stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqb.build.incremental.fallback import NotIncremental, explain_fallback
from sqb.build.kinds.append_only import (
    compute_incremental_change,
    evolve_columns,
    fit_columns,
    format_current_version,
    has_same_columns,
    is_started_over,
    may_change_layout,
)
from sqb.build.kinds.table import is_small, rebuild_table
from sqb.build.node.analyse import analyse_node
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.publish import confirm_rows, format_stage, open_stage, publish_or_confirm
from sqb.errors.build import KeyViolation
from sqb.errors.project import Contradiction
from sqb.lake.port import Column
from sqb.names import At
from sqb.project.models.kinds import HISTORY_COLUMN_NAMES, HISTORY_COLUMNS

_ADDED = tuple(Column(name, kind) for name, kind in HISTORY_COLUMNS)


def build_scd2(context: NodeContext) -> NodeOutcome:
    """Open the history, or close the removed rows and open the added ones."""
    from sqb.spark.data import keys, scd2

    session = context.session()
    frame, columns = analyse_node(context, session)
    key = list(context.node.settings["unique_key"])
    keys.refuse_missing_columns(key, [c.name for c in columns], "unique_key")
    reserved = [c.name for c in columns if c.name.lower() in HISTORY_COLUMN_NAMES]
    if reserved:
        raise Contradiction(
            f'"{reserved[0]}" is a column that scd2 adds itself',
            at=At(context.node.file),
            hint="give yours another name",
        )
    if is_started_over(context) or not _has_history_columns(context):

        def check(session: Any, stage: str) -> None:
            keys.refuse_bad_keys(session.table(stage), key)

        opened = scd2.open_rows(frame, context.now)
        return rebuild_table(context, session, opened, (*columns, *_ADDED), check)
    after = evolve_columns(context, session, columns, HISTORY_COLUMN_NAMES)
    names = [c.name for c in after]
    try:
        if [c.name for c in columns] != names:
            raise NotIncremental("its columns changed")
        with compute_incremental_change(context, session, names) as change:
            return _record_history(context, session, change, after, key, "incremental")
    except Exception as error:
        why = error if isinstance(error, KeyViolation) else explain_fallback(error)
        # Where the current rows are not what the query gave before (it may choose among equals), they are compared.
        with _compare_with_current(context, session, frame, after) as change:
            outcome = _record_history(context, session, change, after, key, "full")
        return replace(outcome, detail=f"{context.planned.detail}; compared in full: {why}".removeprefix("; "))


def _has_history_columns(context: NodeContext) -> bool:
    """Whether the current table is a history: a table of another kind cannot be continued."""
    names = {c.name for c in context.current.columns} if context.current is not None else set()
    return names.issuperset(HISTORY_COLUMN_NAMES)


@contextmanager
def _compare_with_current(context: NodeContext, session: Any, frame: Any, columns: tuple[Column, ...]) -> Iterator[Any]:
    """The query's result against the rows that are current; a column that the table lacks is NULL there."""
    from sqb.spark.data import changes

    names = [c.name for c in columns]
    current = fit_columns(session.sql(f"SELECT * FROM {format_current_version(context)} WHERE is_current"), columns)
    now = changes.with_multiplicity(fit_columns(frame, columns), 1, names)
    then = changes.with_multiplicity(current, -1, names)
    with (
        changes.persisted(now),
        changes.persisted(then),
        changes.persisted(changes.sum_changes(now.unionAll(then), names)) as change,
    ):
        yield change


def _record_history(
    context: NodeContext, session: Any, change: Any, columns: tuple[Column, ...], key: list[str], run_type: str
) -> NodeOutcome:
    """Close the rows of keys that changed, add the new ones, and publish both with one commit."""
    from sqb.spark.data import changes, frames, keys, scd2

    assert context.current is not None and context.current.snapshot_id is not None
    names = [c.name for c in columns]
    everything = (*columns, *_ADDED)
    table_rows = fit_columns(session.sql(f"SELECT * FROM {format_current_version(context)}"), everything)
    keys.refuse_bad_change(change, table_rows.where("is_current"), key)
    content = context.current.identity.content
    same = has_same_columns(context, session, everything)
    now = scd2.compute_run_time(table_rows, context.now)
    behind = _format_clock_notice(context.now, now) if now != context.now else ()
    with changes.persisted(scd2.build_history_change(table_rows, change, names, key, now)) as moves:
        all_names = [c.name for c in everything]
        size = changes.MeasuredChange(moves, all_names)
        if run_type == "incremental" and size.rows_removed != changes.MeasuredChange(change, names).rows_removed:
            raise NotIncremental("the removed rows are not the current ones")
        if not size.rows_added and not size.rows_removed and same and not may_change_layout(context):
            return confirm_rows(context, content or None, run_type)
        shape = context.build_shape(everything, keeps_rows=True)
        gone: list[str] | None = []
        rows = changes.expand_rows(moves, 1, all_names)
        if size.rows_removed and same:
            at = context.current.snapshot_id
            gone, rows = changes.plan_change(
                session, context.format_relation(), at, moves, all_names, is_small(context)
            )
        elif size.rows_removed:
            # Rows that are closed get the new columns too, so the whole history is written once in its new form.
            whole = changes.sum_changes(
                changes.with_multiplicity(table_rows, 1, all_names).unionAll(
                    moves.select(*all_names, changes.MULTIPLICITY)
                ),
                all_names,
            )
            gone, rows = None, changes.expand_rows(whole, 1, all_names)
        with open_stage(context, shape) as stage:
            _, written = frames.write_to_stage(session, rows, format_stage(context, stage), shape)
            context.announce("written", context.node.name)
            if not same:
                content = str(changes.compute_contents({"there": table_rows})["there"])
            total = written if gone is None or not content.startswith("n:") else size.apply_to(content)
            # A row that is closed is not a new one, though it is written again.
            added = changes.expand_rows(moves, 1, all_names).where("is_current")
            rows_moved = max(size.rows_added, size.rows_removed)
            outcome = publish_or_confirm(context, stage, rows_moved, total, gone, run_type, added=added)
        return replace(outcome, notices=(*outcome.notices, *behind))


def _format_clock_notice(clock: datetime, used: datetime) -> tuple[str, ...]:
    return (
        f"the clock of this machine says {clock.isoformat(' ')}, and the last change of the history was at"
        f" {used.isoformat(' ')}: that moment is taken, so that no interval goes back in time",
    )
