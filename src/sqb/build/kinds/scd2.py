"""`scd2`: history. The current rows are the query's result; a row that changes or goes is closed and stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqb.build.contracts import analysed
from sqb.build.fallback import why_not
from sqb.build.incremental import WhyNot
from sqb.build.kinds.log import evolved, fitted, followed, may_be_laid_out_anew, same_columns, starts_anew, text_at
from sqb.build.kinds.table import is_small, rebuild
from sqb.build.publish import keep_rows, publish_or_keep, stage_for, stage_text
from sqb.build.turn import Outcome, Turn
from sqb.errors import Contradiction, KeyViolation
from sqb.lake.port import Column
from sqb.names import At

OWN = ("valid_from", "valid_to", "is_current")
OWN_COLUMNS = (Column("valid_from", "timestamp"), Column("valid_to", "timestamp"), Column("is_current", "boolean"))


def build_scd2(turn: Turn) -> Outcome:
    """Open the history, or close the rows that went and open those that came."""
    from sqb.spark import history, keys

    session = turn.session()
    frame, columns = analysed(turn, session)
    key = list(turn.node.settings["unique_key"])
    keys.refuse_missing_columns(key, [c.name for c in columns], "unique_key")
    taken = [c.name for c in columns if c.name.lower() in OWN]
    if taken:
        raise Contradiction(
            f'"{taken[0]}" is a column that scd2 adds itself', at=At(turn.node.file), hint="give yours another name"
        )
    if starts_anew(turn) or not _is_history(turn):

        def check(session: Any, stage: str) -> None:
            keys.refuse_bad_keys(session.table(stage), key)

        opened = history.opened(frame, turn.now)
        return rebuild(turn, session, opened, (*columns, *OWN_COLUMNS), check)
    after = evolved(turn, session, columns, OWN)
    names = [c.name for c in after]
    try:
        if [c.name for c in columns] != names:
            raise WhyNot("its columns changed")
        with followed(turn, session, names) as change:
            return _record(turn, session, change, after, key, "incremental")
    except Exception as error:
        why = error if isinstance(error, KeyViolation) else why_not(error)
        # Where the current rows are not what the query gave before (it may choose among equals), they are compared.
        with _against_current(turn, session, frame, after) as change:
            outcome = _record(turn, session, change, after, key, "full")
        return replace(outcome, detail=f"{turn.planned.detail}; compared in full: {why}".removeprefix("; "))


def _is_history(turn: Turn) -> bool:
    """Whether what stands is one: a table of another kind has no history to go on with."""
    there = {c.name for c in turn.standing.columns} if turn.standing is not None else set()
    return there.issuperset(OWN)


@contextmanager
def _against_current(turn: Turn, session: Any, frame: Any, columns: tuple[Column, ...]) -> Iterator[Any]:
    """The query's result against the rows that are current; a column that the table lacks is NULL there."""
    from sqb.spark import changes

    names = [c.name for c in columns]
    current = fitted(session.sql(f"SELECT * FROM {text_at(turn)} WHERE is_current"), columns)
    now = changes.signed(fitted(frame, columns), 1, names)
    then = changes.signed(current, -1, names)
    with changes.kept(now), changes.kept(then), changes.kept(changes.net(now.unionAll(then), names)) as change:
        yield change


def _record(
    turn: Turn, session: Any, change: Any, columns: tuple[Column, ...], key: list[str], run_type: str
) -> Outcome:
    from sqb.spark import changes, frames, history, keys

    assert turn.standing is not None and turn.standing.snapshot_id is not None
    names = [c.name for c in columns]
    everything = (*columns, *OWN_COLUMNS)
    there = fitted(session.sql(f"SELECT * FROM {text_at(turn)}"), everything)
    keys.refuse_bad_change(change, there.where("is_current"), key)
    content = turn.standing.identity.get("sqb.content", "")
    same = same_columns(turn, session, everything)
    now = history.not_before_last(there, turn.now)
    behind = _say_behind(turn.now, now) if now != turn.now else ()
    with changes.kept(history.closed_and_opened(there, change, names, key, now)) as moves:
        all_names = [c.name for c in everything]
        size = changes.Measured(moves, all_names)
        if run_type == "incremental" and size.went != changes.Measured(change, names).went:
            raise WhyNot("the rows that went are not the current ones")
        if not size.came and not size.went and same and not may_be_laid_out_anew(turn):
            return keep_rows(turn, content or None, run_type)
        shape = turn.shape(everything, keeps_rows=True)
        gone: list[str] | None = []
        rows = changes.rows_of(moves, 1, all_names)
        if size.went and same:
            at = turn.standing.snapshot_id
            gone, rows = changes.exchanged(session, turn.relation_text(), at, moves, all_names, is_small(turn))
        elif size.went:
            # Rows that are closed get the new columns too, so the whole history is written once in its new form.
            whole = changes.net(
                changes.signed(there, 1, all_names).unionAll(moves.select(*all_names, changes.TIMES)), all_names
            )
            gone, rows = None, changes.rows_of(whole, 1, all_names)
        with stage_for(turn, shape) as stage:
            _, written = frames.write_to_stage(session, rows, stage_text(turn, stage), shape)
            turn.announce("written", turn.node.name)
            if not same:
                content = str(changes.contents({"there": there})["there"])
            total = written if gone is None or not content.startswith("n:") else size.applied(content)
            # A row that is closed is not a new one, though it is written again.
            added = changes.rows_of(moves, 1, all_names).where("is_current")
            rows_moved = max(size.came, size.went)
            outcome = publish_or_keep(turn, stage, rows_moved, total, gone, run_type, added=added)
        return replace(outcome, notices=(*outcome.notices, *behind))


def _say_behind(clock: datetime, used: datetime) -> tuple[str, ...]:
    return (
        f"the clock of this machine says {clock.isoformat(' ')}, and the last change of the history was at"
        f" {used.isoformat(' ')}: that moment is taken, so that no interval goes back in time",
    )
