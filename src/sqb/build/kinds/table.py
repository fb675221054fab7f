"""`table`: the query's full result, brought up to date from changes where that is proven and pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqb.build.contracts import analysed
from sqb.build.fallback import why_not
from sqb.build.incremental import Following, Touched, Versus, WhyNot
from sqb.build.kept import columns_of_before, kept_after_rebuild
from sqb.build.publish import keep_rows, publish_or_keep, stage_for, stage_text
from sqb.build.turn import Outcome, Turn

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
    compare: Callable[[Any, Any, Any], Outcome] | None = None,
) -> Outcome:
    """The kinds whose rows are the query's result, and with `widen` rows of before that it lost.

    `compare` writes what differs of a result that was computed in full; it raises `WhyNot` where all is to be written.
    """
    session = turn.session()
    frame, columns = analysed(turn, session)
    try:
        return _follow(turn, session, columns, versus, check_change)
    except Exception as error:
        why = why_not(error)
        detail = f"{turn.planned.detail}; rebuilt: {why}" if turn.planned.run_type != "backfill" else ""
        if compare is not None:
            try:
                return replace(compare(session, frame, columns), detail=detail)
            except WhyNot:
                pass
        whole = widen(session, frame) if widen is not None else frame
        return replace(rebuild(turn, session, whole, columns, check_full), detail=detail)


def rebuild(turn: Turn, session: Any, frame: Any, columns: Any, check: CheckFull | None = None) -> Outcome:
    """Run the query once, into a stage, and make that the table."""
    from sqb.spark import frames

    shape = turn.shape(columns)
    with stage_for(turn, shape) as stage:
        text, before = stage_text(turn, stage), columns_of_before(turn, [c.name for c in columns])
        rows, content, part = frames.write_and_compare(session, frame, text, shape, before)
        turn.announce("written", turn.node.name)
        if check is not None:
            check(session, text)
        kept = kept_after_rebuild(turn, session, text, content, part)
        return replace(publish_or_keep(turn, stage, rows, content, kept=kept), wrote="table written anew")


def _follow(turn: Turn, session: Any, columns: Any, versus: Versus, check: CheckChange | None) -> Outcome:
    with ExitStack() as stack:
        names = [c.name for c in columns]
        following = Following(turn, session, names, versus, stack)
        assert turn.standing is not None
        content = turn.standing.identity.get("sqb.content", "")
        if not content.startswith("n:"):
            raise WhyNot("its content was never recorded")
        touched = following.touched()
        by = following.held(touched) if touched is not None else None
        if touched is not None and by is not None and check is None:
            return _replace_keys(turn, session, following, touched, by, columns, content)
        return apply_change(turn, session, following.changes(touched), columns, content, check)


def apply_change(
    turn: Turn,
    session: Any,
    found: Any,
    columns: Any,
    content: str,
    check: CheckChange | None = None,
    run_type: str = "incremental",
) -> Outcome:
    """Take the rows that went out of the table, and put those that came into it."""
    from sqb.spark import changes

    names = [c.name for c in columns]
    change = check(session, found, names) if check is not None else found
    size = changes.Measured(change, names)
    if not size.came and not size.went:
        return keep_rows(turn, content, run_type)
    gone: list[str] | None = []
    rows = changes.rows_of(change, 1, names)
    if size.went:
        assert turn.standing is not None and turn.standing.snapshot_id is not None
        at = turn.standing.snapshot_id
        gone, rows = changes.exchanged(session, turn.relation_text(), at, change, names, is_small(turn))
    after = size.applied(content)
    count = max(size.came, size.went)
    return _publish(turn, session, rows, columns, lambda: count, lambda written: after, gone, run_type)


def _replace_keys(
    turn: Turn, session: Any, following: Following, touched: Touched, by: Mapping[str, str], columns: Any, content: str
) -> Outcome:
    """Put the rows of touched keys in the place of those that the table holds for them, if they differ at all."""
    from sqb.spark import changes

    assert turn.standing is not None and turn.standing.snapshot_id is not None
    at = turn.standing.snapshot_id
    now = following.evaluated(touched, lambda h: h.now)
    own = _own_partitions(turn, touched, by)
    if own is None and is_small(turn):
        # Everything is written anew, so that the write itself tells the new content.
        counted, count = changes.counting(now)
        _, rows = changes.renewed(session, turn.relation_text(), at, touched.keys, by, counted, small=True)
        return _publish(turn, session, rows, columns, count, lambda written: written, None)
    then = changes.contents({"then": following.target_rows(touched, by)})["then"]
    if own is not None:
        counted, count = changes.counting(now)
        after = changes.replacing(content, then)
        return _publish(turn, session, counted, columns, count, after, own)
    kept = following.stack.enter_context(changes.kept(now))
    mine = changes.contents({"now": kept})["now"]
    if mine == then:
        return keep_rows(turn, content, "incremental")
    gone, rows = changes.renewed(session, turn.relation_text(), at, touched.keys, by, kept, small=False)
    total = changes.replacing(content, then)(str(mine))
    return _publish(turn, session, rows, columns, lambda: mine.count, lambda written: total, gone)


def is_small(turn: Turn) -> bool:
    """Whether a table is written anew in less time than it takes to find out which of its files to write anew."""
    return turn.standing is not None and (turn.standing.rows or 0) <= turn.workspace.gate.small_rows


def _own_partitions(turn: Turn, touched: Touched, by: Mapping[str, str]) -> list[str] | None:
    """The table's files of touched keys, when it is partitioned by the key: they hold nothing else."""
    values = touched.keys.literals
    if len(by) != 1 or not touched.keys.all_literal:
        return None
    name, column = next(iter(by.items()))
    found = turn.lake.files_with(turn.node.relation, column, values[name])
    return list(found) if found is not None else None


def _publish(
    turn: Turn,
    session: Any,
    rows: Any,
    columns: Any,
    count: Callable[[], int],
    content: Callable[[str], str],
    gone: list[str] | None,
    run_type: str = "incremental",
) -> Outcome:
    """Write rows and publish them; `content` makes the table's content from that of the rows written."""
    shape = turn.shape(columns)
    with stage_for(turn, shape) as stage:
        if not stage.same_shape:
            raise WhyNot("its columns or layout changed")
        written = _write(session, rows, stage_text(turn, stage), shape)
        turn.announce("written", turn.node.name)
        done = publish_or_keep(turn, stage, count(), content(written), gone, run_type)
        return replace(done, wrote="table written anew" if gone is None else "changed rows only")


def _write(session: Any, rows: Any, stage: str, shape: Any) -> str:
    from sqb.spark import changes, frames

    try:
        return frames.write_to_stage(session, rows, stage, shape)[1]
    except Exception as error:
        if changes.is_inconsistent(error):
            raise WhyNot("the table does not hold the rows that its commit says") from error
        raise
