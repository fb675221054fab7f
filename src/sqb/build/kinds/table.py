"""`table`: the query's full result, brought up to date from changes where that is proven and pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqb.build.incremental import Versus, WhyNot, result_changes, worth_following
from sqb.build.turn import Outcome, Turn, keep_rows, publish_or_keep, stage_for, stage_text

# Looks at staged rows, or at a change and the rows it will leave, before anybody else can see them.
CheckFull = Callable[[Any, str], None]
CheckChange = Callable[[Any, Any, list[str]], Any]


def build_table(turn: Turn) -> Outcome:
    """Follow the changes of the inputs, or run the query as a whole."""
    return follow_or_rebuild(turn)


def follow_or_rebuild(
    turn: Turn,
    versus: Versus = "target",
    check_full: CheckFull | None = None,
    check_change: CheckChange | None = None,
    widen: Callable[[Any, Any], Any] | None = None,
) -> Outcome:
    """The kinds whose rows are the query's result, and with `widen` rows of before that it lost."""
    from sqb.spark import frames

    session = turn.session()
    frame = frames.analyse(session, turn.query().sql)
    columns = frames.columns_of(frame)
    try:
        return _follow(turn, session, columns, versus, check_change)
    except WhyNot as why:
        detail = f"{turn.planned.detail}; rebuilt: {why}" if turn.planned.run_type != "backfill" else ""
        whole = widen(session, frame) if widen is not None else frame
        return replace(rebuild(turn, session, whole, columns, check_full), detail=detail)


def rebuild(turn: Turn, session: Any, frame: Any, columns: Any, check: CheckFull | None = None) -> Outcome:
    """Run the query once, into a stage, and make that the table."""
    from sqb.spark import frames

    shape = turn.shape(columns)
    with stage_for(turn, shape) as stage:
        rows, content = frames.write_to_stage(session, frame, stage_text(turn, stage), shape)
        turn.announce("written", turn.node.name)
        if check is not None:
            check(session, stage_text(turn, stage))
        return publish_or_keep(turn, stage, rows, content)


def _follow(turn: Turn, session: Any, columns: Any, versus: Versus, check: CheckChange | None) -> Outcome:
    from sqb.spark import changes

    template, facts, holes = worth_following(turn)
    assert turn.standing is not None and turn.standing.snapshot_id is not None
    content = turn.standing.identity.get("sqb.content", "")
    if not content.startswith("n:"):
        raise WhyNot("its content was never recorded")
    names = [c.name for c in columns]
    shape = turn.shape(columns)
    with result_changes(turn, session, template, facts, holes, names, versus) as found:
        change = check(session, found, names) if check is not None else found
        size = changes.Measured(change, names)
        if not size.came and not size.went:
            return keep_rows(turn, content, "incremental")
        gone: list[str] = []
        rows = changes.rows_of(change, 1, names)
        if size.went:
            gone, rows = changes.exchanged(session, turn.relation_text(), turn.standing.snapshot_id, change, names)
        with stage_for(turn, shape) as stage:
            if not stage.same_shape:
                raise WhyNot("its columns or layout changed")
            _write(session, rows, stage_text(turn, stage), shape)
            turn.announce("written", turn.node.name)
            after = size.applied(content)
            return publish_or_keep(turn, stage, max(size.came, size.went), after, gone, "incremental")


def _write(session: Any, rows: Any, stage: str, shape: Any) -> None:
    from sqb.spark import changes, frames

    try:
        frames.write_to_stage(session, rows, stage, shape)
    except Exception as error:
        if changes.is_inconsistent(error):
            raise WhyNot("the table does not hold the rows that its commit says") from error
        raise
