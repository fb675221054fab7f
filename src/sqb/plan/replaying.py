"""What a plan says of an `incremental` model that runs: the window that it is run for, and why that one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.compiled import Node, Project
from sqb.names import Relation
from sqb.plan.cascade import Replay, policy_of, predicted
from sqb.plan.observed import Observed, Standing
from sqb.plan.values import Options, PlannedNode, Reason
from sqb.project.cursors import cursor_of

# In the commit of a model's rows: the largest value of its cursor; and the window of a run whose end was given.
CURSOR_MAX = "sqb.cursor_max"
WINDOW = "sqb.window"
_ANEW = (Reason.FIRST_RUN, Reason.RELATION_MISSING)
_DEFINITION = (*_ANEW, Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED)


def with_replay(
    planned: PlannedNode,
    node: Node,
    project: Project,
    observed: Observed,
    options: Options,
    above: dict[str, Replay],
) -> PlannedNode:
    """A node that runs, with what it does again; `above` is added to, for those that read it."""
    standing = observed.of(node)
    found = _within(predicted(node, planned.reason, project, standing, observed.relations, above), node, options)
    if found is not None:
        above[node.name] = found
    if node.kind != "incremental":
        return planned
    is_new = options.full_refresh or planned.reason in _ANEW
    if is_new:
        found = Replay("full", node.name)
    anew = found is not None and found.scope == "full"
    run_type = "incremental" if not anew else "backfill" if planned.reason in _DEFINITION else "full"
    words = _words(node, standing, found, is_new, options)
    return replace(
        planned,
        run_type=run_type,  # type: ignore[arg-type]
        detail="; ".join(part for part in (planned.detail, words) if part),
        incremental={"class": "cursor", "why": _manner(node)},
        replay={"scope": str(found), "root": found.root} if found is not None else None,
    )


def _manner(node: Node) -> str:
    cursor = cursor_of(node.settings)
    return f"{cursor.strategy} by {cursor.column}"


def replay_now(
    node: Node, reason: Reason, project: Project, relations: Mapping[Relation, Standing], options: Options
) -> Replay | None:
    """What a node whose turn has come does again, now that everything above it is as it will be."""
    return _within(predicted(node, reason, project, relations.get(node.relation), relations, {}), node, options)


def _within(found: Replay | None, node: Node, options: Options) -> Replay | None:
    """A window that was asked for is all that is done again."""
    if found is None or window_of(node, options) is None:
        return found
    return Replay("forward", found.root)


def window_of(node: Node, options: Options) -> tuple[str | None, str | None] | None:
    """The window that a node is to be run for, where one was asked for."""
    if node.kind != "incremental" or not options.has_window:
        return None
    return options.start_cursor, options.end_cursor


def _words(node: Node, standing: Standing | None, found: Replay | None, is_new: bool, options: Options) -> str:
    if options.has_window:
        return f"window [{options.start_cursor or '…'}, {options.end_cursor or '…'})"
    cursor = cursor_of(node.settings)
    if is_new:
        return f"from {cursor.start} on" if cursor.start is not None else ""
    if found is not None and found.scope != "forward":
        how = "replays everything" if found.scope == "full" else _stretch(node, found)
        own = f" (replay_on_change: {found})" if policy_of(node) is not None else ""
        return f"{how}{own}" if found.root == node.name else f"{how}{own}, as {found.root} changed"
    largest = (standing.identity or standing.left).get(CURSOR_MAX) if standing is not None else None
    if largest is None:
        return ""
    lookback = node.settings.get("lookback", "")
    return f"from {largest} on" + (f", less {lookback}" if cursor.lookback else "")


def _stretch(node: Node, found: Replay) -> str:
    """What a bounded replay covers: the windows that were replayed above, or how far back it goes from the end."""
    if not found.spans:
        return f"replays the last {found.length}"
    if policy_of(node) is not None:
        return f"replays the {found.length} before {' and '.join(end for _, end in found.spans)}, and all since"
    return f"replays from {' and '.join(start for start, _ in found.spans)} on"
