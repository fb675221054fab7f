"""Bounded replays that failed: the windows that they would have covered, so that a later one covers them too.

A model with a `bounded` policy counts back from the end of its data. When the run fails, the data goes on before the
next one: counted from its new end, the replay would leave rows as the old definition made them, which a run that did
not fail would have made anew. So the history of a run that failed says what it was about to replay, and on what rows.
A run that is killed writes no history: what it is about to replay is written down before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sqb.build.node.context import NodeContext
from sqb.errors.base import SqbError
from sqb.lake.state.rows import STAGED, NodeResult
from sqb.plan.replay import Span, get_policy

# What is recorded of a failed run.
ATTEMPT = "replay"


def build_attempt(context: NodeContext | None, span: Span | None) -> dict[str, Any]:
    """What is recorded of a run that failed: the window that it was to replay, where it is known, and of what rows."""
    if context is None or not _is_bounded(context):
        return {}
    return {ATTEMPT: {"of": _get_base_run_id(context), "window": list(span) if span is not None else None}}


def stage_attempt(context: NodeContext, span: Span) -> None:
    """Write down what a run is about to replay: it counts until the rows are others."""
    if not (attempt := build_attempt(context, span)):
        return
    node = context.node
    row = NodeResult(
        node.type,
        node.name,
        node.relation.schema,
        context.run_id,
        STAGED,
        "",
        json.dumps(attempt),
        "",
        datetime.now(UTC),
    )
    # It is for the case that this build is killed: where it cannot be written, the build may still go well.
    with suppress(SqbError):
        context.lake.state.append_node_results([row])


def list_earlier_attempts(context: NodeContext) -> list[Span | None]:
    """The windows of replays of the current rows that did not end well; None for one that did not know its own."""
    if not _is_bounded(context):
        return []
    rows = context.lake.state.read_node_results([context.node.relation.schema], node_name=context.node.name)
    earlier = (r for r in rows if r.status in ("failed", STAGED) and r.run_id != context.run_id)
    tried = (_parse_attempt(row) for row in earlier if row.node_type == context.node.type)
    return [_parse_window(attempt) for attempt in tried if attempt.get("of") == _get_base_run_id(context)]


def _is_bounded(context: NodeContext) -> bool:
    """Whether a run replays as far back as its own policy says; what was replayed above is recorded there."""
    if context.replay is None or context.replay.scope != "bounded" or context.window is not None:
        return False
    return get_policy(context.node) is not None


def _get_base_run_id(context: NodeContext) -> str:
    """The run that made the current rows; those that a new version begins with are of the version before."""
    prior = context.planned.prior
    current = context.current or (context.states(prior.relation) if prior is not None else None)
    return current.known_identity.run_id if current is not None else ""


def _parse_attempt(row: NodeResult) -> Mapping[str, Any]:
    try:
        attempt = json.loads(row.metadata).get(ATTEMPT)
    except (ValueError, AttributeError):
        return {}
    return attempt if isinstance(attempt, dict) else {}


def _parse_window(attempt: Mapping[str, Any]) -> Span | None:
    match attempt.get("window"):
        case [str(start), str(end)]:
            return start, end
        case _:
            return None
