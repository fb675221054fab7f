"""`append`: a log. Each run adds exactly what came into the query's result; nothing is ever removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqb.build.incremental.fallback import explain_fallback
from sqb.build.kinds.append_only import (
    compute_full_change,
    compute_incremental_change,
    evolve_columns,
    fit_columns,
    format_current_version,
    has_same_columns,
    is_started_over,
    may_change_layout,
)
from sqb.build.kinds.table import rebuild_table
from sqb.build.node.analyse import analyse_node
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.publish import confirm_rows, format_stage, open_stage, publish_or_confirm
from sqb.names import quote


def build_append(context: NodeContext) -> NodeOutcome:
    """Start the log, or add to it."""
    session = context.session()
    frame, columns = analyse_node(context, session)
    if is_started_over(context):
        return rebuild_table(context, session, frame, columns)
    names = [c.name for c in columns]
    try:
        with compute_incremental_change(context, session, names) as change:
            return add_change(context, session, change, columns, "incremental")
    except Exception as error:
        why = explain_fallback(error)
    detail = f"{context.planned.detail}; compared in full: {why}".removeprefix("; ")
    return replace(_add_full_comparison(context, session, frame, columns), detail=detail)


def _add_full_comparison(context: NodeContext, session: Any, frame: Any, columns: Any) -> NodeOutcome:
    """Add what came into the result since the last run; without a version to compare with, what the log lacks."""
    try:
        with compute_full_change(context, session, columns) as change:
            return add_change(context, session, change, columns, "full")
    except Exception as error:
        why = explain_fallback(error)
    with _compute_missing_rows(context, session, frame, columns, str(why)) as (change, warning):
        outcome = add_change(context, session, change, columns, "full")
    return replace(outcome, notices=(*outcome.notices, *warning))


@contextmanager
def _compute_missing_rows(
    context: NodeContext, session: Any, frame: Any, columns: Any, reason: str
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """What the result has and the log has not."""
    names = [c.name for c in columns]
    from sqb.spark.data import changes, frames

    table_columns = frames.list_columns(session.sql(f"SELECT * FROM {format_current_version(context)}"))
    shared = [c for c in names if c.lower() in {h.name.lower() for h in table_columns}]
    log = fit_columns(
        session.sql(f"SELECT {', '.join(quote(c) for c in shared)} FROM {format_current_version(context)}"), columns
    )
    both = changes.with_multiplicity(frame, 1, names).unionAll(changes.with_multiplicity(log, -1, names))
    with changes.persisted(changes.sum_changes(both, names)) as change:
        if not context.node.lookups:
            yield change, (f"{reason}: the rows that the log lacks were added",)
            return
        # A row is not added again because a lookup has other values now than when the row was added.
        with changes.persisted(
            changes.cancel_equal_rows(change, names, _list_driver_columns(context, names))
        ) as unlike:
            yield unlike, (f"{reason}: the rows that the log lacks were added, whatever its lookups say of them now",)


def _list_driver_columns(context: NodeContext, names: list[str]) -> list[str]:
    """The columns of the result that do not come from lookups."""
    lookups = {lookup.name for lookup in context.node.lookups}
    listed = context.node.lookup_columns
    looked_up = set(listed)
    if "*" in listed:
        # The tables' columns show which table an unlisted column comes from.
        states = {i.name: context.states(context.get_relation(i.name)) for i, _ in context.inputs if not i.view}
        of = {name: {c.name.lower() for c in s.columns} for name, s in states.items() if s is not None}
        driven = {c for name, columns in of.items() if name not in lookups for c in columns}
        looked_up |= {c for name, columns in of.items() if name in lookups for c in columns} - driven
    return [name for name in names if name.lower() not in looked_up]


def _format_retained_rows(count: int) -> str:
    return "1 row left the result; a log keeps it" if count == 1 else f"{count} rows left the result; a log keeps them"


def add_change(
    context: NodeContext, session: Any, change: Any, columns: Any, run_type: str = "incremental"
) -> NodeOutcome:
    """Add the rows that were added to the result; rows that left the result stay in the log."""
    from sqb.spark.data import changes, frames

    assert context.current is not None
    after = evolve_columns(context, session, columns)
    content = context.current.identity.content
    added_rows = fit_columns(changes.expand_rows(change, 1, [c.name for c in columns]), after)
    size = changes.MeasuredChange(change, [c.name for c in columns])
    retained = (_format_retained_rows(size.rows_removed),) if size.rows_removed else ()
    if not has_same_columns(context, session, after):
        # The content of the rows that stay is that of rows with the new columns.
        content = str(
            changes.compute_contents(
                {"log": fit_columns(session.sql(f"SELECT * FROM {format_current_version(context)}"), after)}
            )["log"]
        )
    elif not size.rows_added and not may_change_layout(context):
        outcome_without_rows = confirm_rows(context, content or None, run_type)
        return replace(outcome_without_rows, notices=(*outcome_without_rows.notices, *retained))
    shape = context.build_shape(after, keeps_rows=True)
    with open_stage(context, shape) as stage:
        _, added = frames.write_to_stage(session, added_rows, format_stage(context, stage), shape)
        context.announce("written", context.node.name)
        total = changes.add_contents(content, added) if content.startswith("n:") else added
        outcome = publish_or_confirm(context, stage, size.rows_added, total, [], run_type)
    return replace(outcome, notices=(*outcome.notices, *retained))
