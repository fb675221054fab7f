"""From staged rows to a table that readers see: checked first, then published in one commit, or discarded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqb.build.checks.run import check_current, check_stage
from sqb.build.incremental.fallback import PUBLISHING
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.lake.port import PublishedCommit, Shape
from sqb.names import quote


@contextmanager
def _mark_failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(PUBLISHING)
        raise


@_mark_failures()
def publish_or_confirm(
    context: NodeContext,
    stage: Any,
    rows: int,
    content: str,
    gone: Collection[str] | None = None,
    run_type: str | None = None,
    unchanged: str = "",
    added: Any = None,
) -> NodeOutcome:
    """Publish staged rows, or keep the present ones under the new identity when they are the same rows.

    `unchanged` names earlier contents that some columns still have; `added` are the rows that are new, where others are
    staged with them. Keeping the present ones is the early cutoff: what reads this relation sees that its content did
    not change, and does not run.
    """
    context.await_checks()
    current = context.current
    same = current is not None and not current.drifted and stage.same_shape and current.identity.content == content
    passed = check_current(context) if same else check_stage(context, stage, gone, added)
    context.check_files()
    passed_identity = replace(
        passed.identity, unchanged_columns=_read_unchanged_columns(context) if same else unchanged
    )
    identity = context.build_identity(content, run_type, passed_identity).to_properties()
    context.announce("before publish", context.node.name)
    published: PublishedCommit
    if same and context.base is not None:
        published = context.lake.touch(context.node.relation, context.base, identity)
        context.lake.discard(stage)
    else:
        published = context.lake.publish(stage, identity, gone)
    context.announce("published", context.node.name)
    return NodeOutcome(
        0 if same else rows,
        published.snapshot_id,
        published.state,
        identical=same,
        run_type=run_type,
        notices=passed.notices,
        findings=passed.findings,
    )


@_mark_failures()
def confirm_rows(context: NodeContext, content: str | None, run_type: str) -> NodeOutcome:
    """Record that the node is up to date with what it read, without touching a row."""
    assert context.base is not None
    passed = check_current(context)
    context.check_files()
    context.announce("before publish", context.node.name)
    passed_identity = replace(passed.identity, unchanged_columns=_read_unchanged_columns(context))
    identity = context.build_identity(content, run_type, passed_identity)
    published = context.lake.touch(context.node.relation, context.base, identity.to_properties())
    context.announce("published", context.node.name)
    return NodeOutcome(
        0,
        published.snapshot_id,
        published.state,
        identical=True,
        run_type=run_type,
        notices=passed.notices,
        findings=passed.findings,
    )


def _read_unchanged_columns(context: NodeContext) -> str:
    """What the last commit says of contents before it, which stays true of the same rows."""
    current = context.current
    return current.identity.unchanged_columns if current is not None and not current.drifted else ""


@contextmanager
def open_stage(context: NodeContext, shape: Shape) -> Iterator[Any]:
    """A stage for a node's rows; whatever fails before the publish leaves nothing behind."""
    context.announce("before stage", context.node.name)
    stage = context.lake.stage(context.node.relation, shape, context.base, context.run_id, context.view)
    try:
        context.announce("staged", context.node.name)
        yield stage
    except BaseException:
        context.lake.discard(stage)
        raise


def format_stage(context: NodeContext, stage: Any) -> str:
    """A stage's name in SQL."""
    return quote(context.catalog, stage.relation.schema, stage.relation.name)
