"""`tracked`: the query's result in groups; a group is rewritten when its content changes, and removed with it."""

from __future__ import annotations

from typing import Any

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.kinds.append_only import format_current_version, has_same_columns
from sqb.build.kinds.table import apply_change, is_small, refresh_or_rebuild
from sqb.build.node.context import NodeContext, NodeOutcome


def build_tracked(context: NodeContext) -> NodeOutcome:
    """Like `table`: only rows of groups that changed are written, also where the whole query has to run."""
    from sqb.spark.data import keys

    group = list(context.node.settings["group_key"])

    def check_full(session: Any, stage: str) -> None:
        keys.refuse_missing_columns(group, session.table(stage).columns, "group_key")

    def compare(session: Any, frame: Any, columns: Any) -> NodeOutcome:
        content = _get_comparable_content(context)
        keys.refuse_missing_columns(group, [c.name for c in columns], "group_key")
        return _write_difference(context, session, frame, columns, content)

    return refresh_or_rebuild(context, "target", check_full, compare=compare)


def _get_comparable_content(context: NodeContext) -> str:
    """The content of the table that the result is compared with; raises `NotIncremental` to rewrite it."""
    current = context.current
    if current is None or current.is_view or current.snapshot_id is None or current.drifted or context.full_refresh:
        raise NotIncremental("there is nothing to compare with")
    content = current.identity.content
    if not content.startswith("n:") or current.identity.model != context.node.name:
        raise NotIncremental("its content was never recorded")
    if is_small(context):
        raise NotIncremental("rewriting a small table takes less time")
    return content


def _write_difference(context: NodeContext, session: Any, frame: Any, columns: Any, content: str) -> NodeOutcome:
    """The whole result against the table: files that hold changed rows are written, the others stay."""
    from sqb.spark.data import changes

    if not has_same_columns(context, session, columns):
        raise NotIncremental("its columns changed")
    names = [c.name for c in columns]
    now = changes.with_multiplicity(frame, 1, names)
    then = changes.with_multiplicity(session.sql(f"SELECT * FROM {format_current_version(context)}"), -1, names)
    with (
        changes.persisted(now),
        changes.persisted(then),
        changes.persisted(changes.sum_changes(now.unionAll(then), names)) as change,
    ):
        return apply_change(context, session, change, columns, content, run_type="full")
