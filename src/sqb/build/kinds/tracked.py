"""`tracked`: the query's result in groups; a group is rewritten when its content changes, and removed with it."""

from __future__ import annotations

from typing import Any

from sqb.build.incremental import WhyNot
from sqb.build.kinds.log import same_columns, text_at
from sqb.build.kinds.table import apply_change, follow_or_rebuild, is_small
from sqb.build.turn import Outcome, Turn


def build_tracked(turn: Turn) -> Outcome:
    """Like `table`: only rows of groups that changed are written, also where the whole query has to run."""
    from sqb.spark import keys

    group = list(turn.node.settings["group_key"])

    def check_full(session: Any, stage: str) -> None:
        keys.refuse_missing_columns(group, session.table(stage).columns, "group_key")

    def compare(session: Any, frame: Any, columns: Any) -> Outcome:
        content = _content_of_before(turn)
        keys.refuse_missing_columns(group, [c.name for c in columns], "group_key")
        return _write_what_differs(turn, session, frame, columns, content)

    return follow_or_rebuild(turn, "target", check_full, compare=compare)


def _content_of_before(turn: Turn) -> str:
    """The content of the table that the result is compared with; raises `WhyNot` when it is written anew."""
    standing = turn.standing
    if standing is None or standing.is_view or standing.snapshot_id is None or standing.drifted or turn.full_refresh:
        raise WhyNot("there is nothing to compare with")
    content = standing.identity.get("sqb.content", "")
    if not content.startswith("n:") or standing.identity.get("sqb.model") != turn.node.name:
        raise WhyNot("its content was never recorded")
    if is_small(turn):
        raise WhyNot("a small table is written anew in less time")
    return content


def _write_what_differs(turn: Turn, session: Any, frame: Any, columns: Any, content: str) -> Outcome:
    """The whole result against the table: files that hold changed rows are written, the others stay."""
    from sqb.spark import changes

    if not same_columns(turn, session, columns):
        raise WhyNot("its columns changed")
    names = [c.name for c in columns]
    now = changes.signed(frame, 1, names)
    then = changes.signed(session.sql(f"SELECT * FROM {text_at(turn)}"), -1, names)
    with changes.kept(now), changes.kept(then), changes.kept(changes.net(now.unionAll(then), names)) as change:
        return apply_change(turn, session, change, columns, content, run_type="full")
