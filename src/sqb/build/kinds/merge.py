"""`merge`: the query's result with a unique key; rows that leave the result leave the table, unless told to stay."""

from __future__ import annotations

from typing import Any

from sqb.build.incremental import WhyNot
from sqb.build.kinds.table import follow_or_rebuild
from sqb.build.turn import Outcome, Turn
from sqb.errors import KeyViolation
from sqb.names import quote


def build_merge(turn: Turn) -> Outcome:
    """Like `table`, with the key checked before anything is published."""
    from sqb.spark import keys

    key = list(turn.node.settings["unique_key"])
    keep = turn.node.settings.get("on_source_delete") == "keep"

    def check_full(session: Any, stage: str) -> None:
        rows = session.table(stage)
        keys.refuse_missing_columns(key, rows.columns, "unique_key")
        keys.refuse_bad_keys(rows, key)

    def check_change(session: Any, change: Any, columns: list[str]) -> Any:
        keys.refuse_missing_columns(key, columns, "unique_key")
        found = keys.without_lost_keys(change, key, columns) if keep else change
        assert turn.standing is not None
        at = f"{turn.relation_text()} VERSION AS OF {turn.standing.snapshot_id}"
        try:
            keys.refuse_bad_change(found, session.sql(f"SELECT * FROM {at}"), key)
        except KeyViolation as violation:
            if keep:
                # A key that had left the result may have come back to a row that was kept: the whole result tells.
                raise WhyNot("a key may have come back") from violation
            raise
        return found

    if keep and turn.standing is not None and not turn.standing.is_view and not turn.full_refresh:
        return follow_or_rebuild(turn, "result", check_full, check_change, _with_kept_rows(turn, key))
    return follow_or_rebuild(turn, "target", check_full, check_change)


def _with_kept_rows(turn: Turn, key: list[str]) -> Any:
    """The query's result, and the table's rows whose key it does not have."""

    def widen(session: Any, frame: Any) -> Any:
        assert turn.standing is not None
        if turn.standing.snapshot_id is None:
            return frame
        there = session.sql(f"SELECT * FROM {turn.relation_text()} VERSION AS OF {turn.standing.snapshot_id}")
        present = {c.lower() for c in there.columns}
        if not all(k.lower() in present for k in key):
            return frame
        condition = [there[quote(k)].eqNullSafe(frame[quote(k)]) for k in key]
        lost = there.join(frame, condition, "left_anti")
        shared = [c for c in frame.columns if c.lower() in present]
        return frame.unionByName(lost.select(*[quote(c) for c in shared]), allowMissingColumns=True)

    return widen
