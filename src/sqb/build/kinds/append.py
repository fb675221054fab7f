"""`append`: a log. Each run adds exactly what came into the query's result; nothing is ever removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqb.build.contracts import analysed
from sqb.build.fallback import why_not
from sqb.build.kinds.log import (
    compared,
    evolved,
    fitted,
    followed,
    may_be_laid_out_anew,
    same_columns,
    starts_anew,
    text_at,
)
from sqb.build.kinds.table import rebuild
from sqb.build.publish import keep_rows, publish_or_keep, stage_for, stage_text
from sqb.build.turn import Outcome, Turn
from sqb.names import quote


def build_append(turn: Turn) -> Outcome:
    """Start the log, or add to it."""
    session = turn.session()
    frame, columns = analysed(turn, session)
    if starts_anew(turn):
        return rebuild(turn, session, frame, columns)
    names = [c.name for c in columns]
    try:
        with followed(turn, session, names) as change:
            return add_change(turn, session, change, columns, "incremental")
    except Exception as error:
        why = why_not(error)
    detail = f"{turn.planned.detail}; compared in full: {why}".removeprefix("; ")
    return replace(_add_in_full(turn, session, frame, columns), detail=detail)


def _add_in_full(turn: Turn, session: Any, frame: Any, columns: Any) -> Outcome:
    """Add what came into the result since the last run; without a version to compare with, what the log lacks."""
    try:
        with compared(turn, session, columns) as change:
            return add_change(turn, session, change, columns, "full")
    except Exception as error:
        why = why_not(error)
    with _lacking(turn, session, frame, columns, str(why)) as (change, warning):
        outcome = add_change(turn, session, change, columns, "full")
    return replace(outcome, notices=(*outcome.notices, *warning))


@contextmanager
def _lacking(turn: Turn, session: Any, frame: Any, columns: Any, reason: str) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """What the result has and the log has not."""
    names = [c.name for c in columns]
    from sqb.spark import changes, frames

    have = frames.columns_of(session.sql(f"SELECT * FROM {text_at(turn)}"))
    shared = [c for c in names if c.lower() in {h.name.lower() for h in have}]
    log = fitted(session.sql(f"SELECT {', '.join(quote(c) for c in shared)} FROM {text_at(turn)}"), columns)
    both = changes.signed(frame, 1, names).unionAll(changes.signed(log, -1, names))
    with changes.kept(changes.net(both, names)) as change:
        if not turn.node.lookups:
            yield change, (f"{reason}: the rows that the log lacks were added",)
            return
        # What a lookup said when a row was added is no reason to add the row again.
        with changes.kept(changes.without_alike(change, names, _driver_columns(turn, names))) as unlike:
            yield unlike, (f"{reason}: the rows that the log lacks were added, whatever its lookups say of them now",)


def _driver_columns(turn: Turn, names: list[str]) -> list[str]:
    """The columns of the result that do not come from lookups."""
    lookups = {one.name for one in turn.node.lookups}
    listed = turn.node.lookup_columns
    looked_up = set(listed)
    if "*" in listed:
        # Which table an unlisted column comes from is told by the tables' columns.
        states = {i.name: turn.states(turn.relation_of(i.name)) for i, _ in turn.inputs if not i.view}
        of = {name: {c.name.lower() for c in s.columns} for name, s in states.items() if s is not None}
        driven = {c for name, columns in of.items() if name not in lookups for c in columns}
        looked_up |= {c for name, columns in of.items() if name in lookups for c in columns} - driven
    return [name for name in names if name.lower() not in looked_up]


def _kept(count: int) -> str:
    return "1 row left the result; a log keeps it" if count == 1 else f"{count} rows left the result; a log keeps them"


def add_change(turn: Turn, session: Any, change: Any, columns: Any, run_type: str = "incremental") -> Outcome:
    """Add the rows that came; those that went stay."""
    from sqb.spark import changes, frames

    assert turn.standing is not None
    after = evolved(turn, session, columns)
    content = turn.standing.identity.get("sqb.content", "")
    came = fitted(changes.rows_of(change, 1, [c.name for c in columns]), after)
    size = changes.Measured(change, [c.name for c in columns])
    lost = (_kept(size.went),) if size.went else ()
    if not same_columns(turn, session, after):
        # The content of the rows that stay is that of rows with the new columns.
        content = str(changes.contents({"log": fitted(session.sql(f"SELECT * FROM {text_at(turn)}"), after)})["log"])
    elif not size.came and not may_be_laid_out_anew(turn):
        kept = keep_rows(turn, content or None, run_type)
        return replace(kept, notices=(*kept.notices, *lost))
    shape = turn.shape(after, keeps_rows=True)
    with stage_for(turn, shape) as stage:
        _, added = frames.write_to_stage(session, came, stage_text(turn, stage), shape)
        turn.announce("written", turn.node.name)
        total = changes.sum_of(content, added) if content.startswith("n:") else added
        outcome = publish_or_keep(turn, stage, size.came, total, [], run_type)
    return replace(outcome, notices=(*outcome.notices, *lost))
