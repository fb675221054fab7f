"""`table`: the query's full result, brought up to date from changes where that is proven and pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqb.build.incremental.fallback import NotIncremental, explain_fallback
from sqb.build.incremental.operators import compute_with_states, follow_operators
from sqb.build.incremental.refresh import AffectedKeys, IncrementalRefresh
from sqb.build.node.analyse import analyse_node
from sqb.build.node.context import NodeContext, NodeOutcome, WindowRows
from sqb.build.node.few_rows import collect_and_fill
from sqb.build.node.publish import confirm_rows, format_stage, open_stage, publish_or_confirm
from sqb.build.node.unchanged_columns import describe_unchanged_columns, list_retained_columns
from sqb.plan.refresh.choose import Versus

# Checks staged rows, or a change and the rows it will leave, before readers can see them; those of a window say
# what they add to their commit.
CheckFull = Callable[[Any, str], WindowRows | None]
CheckChange = Callable[[Any, Any, list[str]], Any]


def build_table(context: NodeContext) -> NodeOutcome:
    """Refresh the table from the changes of its inputs, or run the whole query."""
    return refresh_or_rebuild(context)


def refresh_or_rebuild(
    context: NodeContext,
    versus: Versus = "target",
    check_full: CheckFull | None = None,
    check_change: CheckChange | None = None,
    widen: Callable[[Any, Any], Any] | None = None,
    compare: Callable[[Any, Any, Any], NodeOutcome] | None = None,
) -> NodeOutcome:
    """The kinds whose rows are the query's result, and with `widen` rows of before that it lost.

    `compare` writes what differs of a result that was computed in full; it raises `NotIncremental` to write all.
    """
    session = context.session()
    context = context.begin_work()
    frame, columns = analyse_node(context, session)
    try:
        return _refresh(context, session, columns, versus, check_full, check_change)
    except Exception as error:
        why = explain_fallback(error)
        context = context.begin_work(context.count_input_rows())
        detail = f"{context.planned.detail}; rebuilt: {why}" if context.planned.run_type != "backfill" else ""
        if compare is not None:
            try:
                return replace(compare(session, frame, columns), detail=detail)
            except NotIncremental:
                pass
        whole = widen(session, frame) if widen is not None else frame
        with ExitStack() as stack:
            if widen is None:
                context, whole = compute_with_states(context, session, whole, stack)
            return replace(rebuild_table(context, session, whole, columns, check_full), detail=detail)


def rebuild_table(
    context: NodeContext,
    session: Any,
    frame: Any,
    columns: Any,
    check: CheckFull | None = None,
    run_type: str | None = None,
    are_few: bool = False,
) -> NodeOutcome:
    """Run the query once, into a stage, and make that the table; `are_few` says that its rows are surely few."""
    from sqb.spark.data import frames

    shape = context.build_shape(columns)
    with open_stage(context, shape) as stage:
        text, before = format_stage(context, stage), list_retained_columns(context, [c.name for c in columns])
        filled = collect_and_fill(context, stage, shape, frame, before) if are_few else None
        rows, content, part = filled or frames.write_and_compare(session, frame, text, shape, before)
        context.announce("written", context.node.name)
        window_rows = check(session, text) if check is not None else None
        if window_rows is not None:
            context = replace(context, window_rows=window_rows)
        unchanged = describe_unchanged_columns(context, session, text, content, part)
        return replace(
            publish_or_confirm(context, stage, rows, content, run_type=run_type, unchanged=unchanged),
            wrote="whole table rewritten",
        )


def _refresh(
    context: NodeContext,
    session: Any,
    columns: Any,
    versus: Versus,
    check_full: CheckFull | None,
    check: CheckChange | None,
) -> NodeOutcome:
    """Bring the table up to date from changes: by the keys that they touch where a key is proven, else by operators."""
    with ExitStack() as stack:
        names = [c.name for c in columns]
        refresh = IncrementalRefresh(context, session, names, versus, stack)
        context = refresh.context
        assert context.current is not None
        content = context.current.identity.content
        affected = refresh.find_affected_keys()
        if affected is None:
            followed = follow_operators(refresh, is_small(context))
            if followed.rows is not None:
                return rebuild_table(
                    followed.context, session, followed.rows, columns, check_full, "incremental", followed.are_few
                )
            return apply_change(followed.context, session, followed.change, columns, content, check)
        by = refresh.map_target_columns(affected)
        if by is not None and check is None:
            return _replace_keys(context, session, refresh, affected, by, columns, content)
        return apply_change(context, session, refresh.compute_key_change(affected), columns, content, check)


def apply_change(
    context: NodeContext,
    session: Any,
    full_change: Any,
    columns: Any,
    content: str,
    check: CheckChange | None = None,
    run_type: str = "incremental",
) -> NodeOutcome:
    """Remove the rows that left the result from the table, and add those that entered it."""
    from sqb.spark.data import changes

    names = [c.name for c in columns]
    change = check(session, full_change, names) if check is not None else full_change
    size = changes.MeasuredChange(change, names)
    if not size.rows_added and not size.rows_removed:
        return confirm_rows(context, content, run_type)
    gone: list[str] | None = []
    rows = changes.expand_rows(change, 1, names)
    if size.rows_removed:
        assert context.current is not None and context.current.snapshot_id is not None
        at = context.current.snapshot_id
        gone, rows = changes.plan_change(session, context.format_relation(), at, change, names, is_small(context))
    after = size.apply_to(content)
    count = max(size.rows_added, size.rows_removed)
    return _publish_rows(context, session, rows, columns, lambda: count, lambda written: after, gone, run_type)


def _replace_keys(
    context: NodeContext,
    session: Any,
    refresh: IncrementalRefresh,
    affected: AffectedKeys,
    by: Mapping[str, str],
    columns: Any,
    content: str,
) -> NodeOutcome:
    """Put the rows of touched keys in the place of those that the table holds for them, if they differ at all."""
    from sqb.spark.data import changes

    assert context.current is not None and context.current.snapshot_id is not None
    at = context.current.snapshot_id
    now = refresh.evaluate_keys(affected, lambda slot: slot.now)
    partition_files = _list_partition_files(context, affected, by)
    if partition_files is None and is_small(context):
        # Everything is written anew, so that the write itself tells the new content.
        counted, count = changes.observe_count(now)
        _, rows = changes.plan_key_replacement(
            session, context.format_relation(), at, affected.keys, by, counted, small=True
        )
        return _publish_rows(context, session, rows, columns, count, lambda written: written, None)
    old_content = changes.compute_contents({"then": refresh.read_target_rows(affected, by)})["then"]
    if partition_files is not None:
        counted, count = changes.observe_count(now)
        after = changes.build_content_replacement(content, old_content)
        return _publish_rows(context, session, counted, columns, count, after, partition_files)
    current_rows = refresh.stack.enter_context(changes.persisted(now))
    new_content = changes.compute_contents({"now": current_rows})["now"]
    if new_content == old_content:
        return confirm_rows(context, content, "incremental")
    gone, rows = changes.plan_key_replacement(
        session, context.format_relation(), at, affected.keys, by, current_rows, small=False
    )
    total = changes.build_content_replacement(content, old_content)(str(new_content))
    return _publish_rows(context, session, rows, columns, lambda: new_content.count, lambda written: total, gone)


def is_small(context: NodeContext) -> bool:
    """Whether a table is written anew in less time than it takes to find out which of its files to write anew."""
    return context.current is not None and (context.current.rows or 0) <= context.workspace.gate.small_rows


def _list_partition_files(context: NodeContext, affected: AffectedKeys, by: Mapping[str, str]) -> list[str] | None:
    """The table's files of touched keys, when it is partitioned by the key: they hold nothing else."""
    values = affected.keys.literals
    if len(by) != 1 or not affected.keys.all_literal:
        return None
    name, column = next(iter(by.items()))
    files = context.lake.find_files_with_values(context.node.relation, column, values[name])
    return list(files) if files is not None else None


def _publish_rows(
    context: NodeContext,
    session: Any,
    rows: Any,
    columns: Any,
    count: Callable[[], int],
    content: Callable[[str], str],
    gone: list[str] | None,
    run_type: str = "incremental",
) -> NodeOutcome:
    """Write rows and publish them; `content` makes the table's content from that of the rows written."""
    shape = context.build_shape(columns)
    with open_stage(context, shape) as stage:
        if not stage.same_shape:
            raise NotIncremental("its columns or layout changed")
        written = _write_stage(session, rows, format_stage(context, stage), shape)
        context.announce("written", context.node.name)
        done = publish_or_confirm(context, stage, count(), content(written), gone, run_type)
        return replace(done, wrote="whole table rewritten" if gone is None else "changed rows only")


def _write_stage(session: Any, rows: Any, stage: str, shape: Any) -> str:
    """Write rows to a stage, and return the checksum of their content; the table may turn out not to be as recorded."""
    from sqb.spark.data import changes, frames

    try:
        return frames.write_to_stage(session, rows, stage, shape)[1]
    except Exception as error:
        if changes.is_inconsistent(error):
            raise NotIncremental("the table does not hold the rows that its commit says") from error
        raise
