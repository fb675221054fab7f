"""`tracked`: the query's result in groups; a group is rewritten when its content changes, and removed with it."""

from __future__ import annotations

from typing import Any

from sqb.build.kinds.table import follow_or_rebuild
from sqb.build.turn import Outcome, Turn


def build_tracked(turn: Turn) -> Outcome:
    """Like `table`: only rows of groups that changed are written."""
    from sqb.spark import keys

    group = list(turn.node.settings["group_key"])

    def check_full(session: Any, stage: str) -> None:
        keys.refuse_missing_columns(group, session.table(stage).columns, "group_key")

    return follow_or_rebuild(turn, "target", check_full)
