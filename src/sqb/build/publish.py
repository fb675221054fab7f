"""From staged rows to a table that readers see: checked first, then published in one commit, or discarded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqb.build.checking import check_stage, check_standing
from sqb.build.turn import Outcome, Turn
from sqb.lake.port import Published, Shape
from sqb.names import quote
from sqb.plan.observed import KEPT

_PUBLISHING = "while rows were checked and published"


def is_publishing(error: BaseException) -> bool:
    """Whether something failed while rows were checked and published, which may have been done nevertheless."""
    return _PUBLISHING in getattr(error, "__notes__", ())


@contextmanager
def _noting_failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(_PUBLISHING)
        raise


@_noting_failures()
def publish_or_keep(
    turn: Turn,
    stage: Any,
    rows: int,
    content: str,
    gone: Collection[str] | None = None,
    run_type: str | None = None,
    kept: str = "",
    added: Any = None,
) -> Outcome:
    """Publish staged rows, or keep the present ones under the new identity when they are the same rows.

    `kept` are the contents of before that the rows still have, in some of their columns; `added` the rows that are new,
    where others are staged with them. Keeping the present ones is the early cutoff: what reads this relation sees that
    its content did not change, and does not run.
    """
    standing = turn.standing
    same = (
        standing is not None
        and not standing.drifted
        and stage.same_shape
        and standing.identity.get("sqb.content") == content
    )
    passed = check_standing(turn) if same else check_stage(turn, stage, gone, added)
    turn.confirm_files()
    identity = turn.identity(content, run_type, {**passed.summary, **(_said_before(turn) if same else _said(kept))})
    turn.announce("before publish", turn.node.name)
    published: Published
    if same and turn.base is not None:
        published = turn.lake.touch(turn.node.relation, turn.base, identity)
        turn.lake.discard(stage)
    else:
        published = turn.lake.publish(stage, identity, gone)
    turn.announce("published", turn.node.name)
    return Outcome(
        0 if same else rows,
        published.snapshot_id,
        published.state,
        identical=same,
        run_type=run_type,
        notices=passed.notices,
        findings=passed.findings,
    )


@_noting_failures()
def keep_rows(turn: Turn, content: str | None, run_type: str) -> Outcome:
    """Record that the node is up to date with what it read, without touching a row."""
    assert turn.base is not None
    passed = check_standing(turn)
    turn.confirm_files()
    turn.announce("before publish", turn.node.name)
    identity = turn.identity(content, run_type, {**passed.summary, **_said_before(turn)})
    published = turn.lake.touch(turn.node.relation, turn.base, identity)
    turn.announce("published", turn.node.name)
    return Outcome(
        0,
        published.snapshot_id,
        published.state,
        identical=True,
        run_type=run_type,
        notices=passed.notices,
        findings=passed.findings,
    )


def _said_before(turn: Turn) -> dict[str, str]:
    """What the last commit says of contents before it, which stays true of the same rows."""
    standing = turn.standing
    return _said(standing.identity.get(KEPT, "")) if standing is not None and not standing.drifted else {}


def _said(kept: str) -> dict[str, str]:
    return {KEPT: kept} if kept else {}


@contextmanager
def stage_for(turn: Turn, shape: Shape) -> Iterator[Any]:
    """A stage for a node's rows; whatever fails before the publish leaves nothing behind."""
    turn.announce("before stage", turn.node.name)
    stage = turn.lake.stage(turn.node.relation, shape, turn.base, turn.run_id, turn.view)
    try:
        turn.announce("staged", turn.node.name)
        yield stage
    except BaseException:
        turn.lake.discard(stage)
        raise


def stage_text(turn: Turn, stage: Any) -> str:
    """A stage's name in SQL."""
    return quote(turn.catalog, stage.relation.schema, stage.relation.name)
