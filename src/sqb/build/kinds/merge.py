"""`merge`: the query's result with a unique key; rows that leave the result leave the table, unless configured."""

from __future__ import annotations

from typing import Any

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.kinds.data_loss import check_row_count
from sqb.build.kinds.table import refresh_or_rebuild
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.errors.build import KeyViolation
from sqb.names import quote


def build_merge(context: NodeContext) -> NodeOutcome:
    """Like `table`, with the key checked before anything is published."""
    from sqb.spark.data import keys

    key = list(context.node.settings["unique_key"])
    keep = context.node.settings.get("on_source_delete") == "keep"

    def check_full(session: Any, stage: str) -> None:
        rows = session.table(stage)
        keys.refuse_missing_columns(key, rows.columns, "unique_key")
        keys.refuse_bad_keys(rows, key)

    def check_change(session: Any, change: Any, columns: list[str]) -> Any:
        keys.refuse_missing_columns(key, columns, "unique_key")
        followed = keys.keep_lost_keys(change, key, columns) if keep else change
        assert context.current is not None
        at = f"{context.format_relation()} VERSION AS OF {context.current.snapshot_id}"
        try:
            keys.refuse_bad_change(followed, session.sql(f"SELECT * FROM {at}"), key)
        except KeyViolation as violation:
            if keep:
                # A key that had left the result may have come back to a row that was kept: the whole result tells.
                raise NotIncremental("a key may have come back") from violation
            raise
        return followed

    if keep and context.current is not None and not context.current.is_view and not context.full_refresh:
        return refresh_or_rebuild(context, "result", check_full, check_change, _build_widener(context, key))
    return refresh_or_rebuild(context, "target", check_full, check_change)


def _build_widener(context: NodeContext, key: list[str]) -> Any:
    """The query's result, and the table's rows whose key it does not have."""

    def widen(session: Any, frame: Any) -> Any:
        assert context.current is not None
        if context.current.snapshot_id is None:
            return frame
        there = session.sql(f"SELECT * FROM {context.format_relation()} VERSION AS OF {context.current.snapshot_id}")
        present = {c.lower() for c in there.columns}
        if not all(k.lower() in present for k in key):
            check_row_count(context, there, frame, f"the table has no key {', '.join(key)} to keep its rows by")
            return frame
        condition = [there[quote(k)].eqNullSafe(frame[quote(k)]) for k in key]
        lost = there.join(frame, condition, "left_anti")
        shared = [c for c in frame.columns if c.lower() in present]
        return frame.unionByName(lost.select(*[quote(c) for c in shared]), allowMissingColumns=True)

    return widen
