"""How much of an `incremental` model is done again when a definition changed, its own or one above it.

A change of a definition goes `forward`, wherever above a model it was made: history is not dropped because a view or a
table was edited. Only the `replay_on_change` of an `incremental` model makes it `bounded` or `full`, and hands that
down, through views and tables. The action is committed with the rows that it made, as an event, and each reader commits
the last event that it has seen: so an action reaches its readers also when they fail, are not selected, or are built
much later. Of a bounded one the window is recorded, so that a reader that comes later replays the same window. New rows
of a source are not an action, and neither is the first build of a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from sqb.compile.model import Node, Project
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.changes.columns import EVERYTHING, Read, is_everything, resolve_column_reads
from sqb.plan.model import Options, PlannedNode, Reason
from sqb.plan.observed import Input, Observed, RelationState, list_changed_inputs, list_inputs
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.project.models.cursor import CursorType, Policy, build_cursor, get_cursor_type, parse_length

Scope = Literal["forward", "bounded", "full"]
# More events than these are joined, the oldest first.
_EVENTS = 8
_RANK: Mapping[Scope, int] = {"forward": 0, "bounded": 1, "full": 2}
_FIRST_BUILD_REASONS = frozenset({Reason.FIRST_RUN, Reason.RELATION_MISSING})
CHANGE_REASONS = frozenset(
    {Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED}
)
# The start and the end of a window of a cursor, as text.
Span = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Replay:
    """What is done again, and the node whose change is the cause of it."""

    scope: Scope
    root: str
    # Of a bounded one: how far it goes back from the end, as written, and on what kind of cursor.
    length: str = ""
    cursor_type: CursorType | None = None
    # The windows that were replayed above, where that has been done.
    spans: tuple[Span, ...] = ()

    def __str__(self) -> str:
        return str(Policy(self.scope, self.length))

    @property
    def strength(self) -> tuple[int, int]:
        """What makes one stronger than another: full beats bounded, a longer bounded one a shorter one."""
        stretch = parse_length(self.length, self.cursor_type) or 0 if self.cursor_type else 0
        return (_RANK[self.scope], stretch)


@dataclass(frozen=True, slots=True)
class Signal:
    """An action of an upstream model, as it arrives below."""

    upstream: str
    replay: Replay


def derive_own_replay(node: Node, reason: Reason, current: RelationState | None) -> Replay | None:
    """What a node does again because it changed itself; None when it did not."""
    if node.type == "seed" or node.kind == "view":
        # The content of a seed is data; what a view changes is seen by those who read it.
        return None
    # Drift comes before a changed definition in the order of reasons, and may hide one.
    left_hash = current.local_hash if current is not None and reason is Reason.CHANGED_OUTSIDE else ""
    if reason not in CHANGE_REASONS and left_hash in ("", node.local_hash):
        return None
    return _build_policy_replay(node, get_policy(node) or Policy("forward"), node.name)


def get_policy(node: Node) -> Policy | None:
    """The `replay_on_change` that an `incremental` model declares itself."""
    written = node.settings.get("replay_on_change") if node.kind == "incremental" else None
    return Policy.parse(written) if written is not None else None


def resolve_replay(node: Node, own: Replay | None, signals: Iterable[Signal]) -> Replay | None:
    """What a node does again, given what it does by itself and what its upstreams hand down."""
    inherited = find_strongest(node, signals)
    policy = get_policy(node)
    # A model without a policy of its own goes forward only as long as nothing above it asks for more.
    if own is not None and (policy is not None or inherited is None or inherited.strength <= own.strength):
        return replace(own, spans=inherited.spans) if inherited is not None and own.scope == "bounded" else own
    if inherited is None or policy is None:
        return inherited
    return replace(
        _build_policy_replay(node, policy, inherited.root), spans=inherited.spans if policy.scope == "bounded" else ()
    )


def find_strongest(node: Node, signals: Iterable[Signal]) -> Replay | None:
    """The most aggressive action that reaches a node; ties go to the upstream whose name comes first."""
    arrived = [Signal(s.upstream, _convert_replay(node, s.replay)) for s in signals]
    if not arrived:
        return None
    ordered = sorted(arrived, key=lambda s: (s.upstream, s.replay.root))
    replay = max(ordered, key=lambda s: s.replay.strength).replay
    return replace(replay, spans=_list_spans(s.replay for s in ordered)) if replay.scope == "bounded" else replay


def _list_spans(replays: Iterable[Replay]) -> tuple[Span, ...]:
    """All windows that were replayed: the longest of them need not be the one that goes back furthest."""
    return tuple(dict.fromkeys(span for replay in replays for span in replay.spans))


def _convert_replay(node: Node, replay: Replay) -> Replay:
    """An action as it is for a node: a bounded one means nothing on a cursor of another type."""
    if replay.scope != "bounded" or node.kind != "incremental" or replay.cursor_type == get_cursor_type(node.settings):
        return replay
    return Replay("forward", replay.root)


def _build_policy_replay(node: Node, policy: Policy, root: str) -> Replay:
    if policy.scope != "bounded":
        return Replay(policy.scope, root)
    return Replay("bounded", root, policy.length, get_cursor_type(node.settings))


# --- what has been handed down so far --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """An action that was carried out, by the run that did."""

    run_id: str
    replay: Replay
    # The columns in which it left the rows as they were, as lists that hold together.
    unchanged: tuple[frozenset[str], ...] = ()
    # Recorded when whatever was rebuilt counted as a full replay.
    is_old: bool = False

    def is_relevant_to(self, read: Read) -> bool:
        """Whether it concerns a reader of these columns."""
        return is_everything(read) or not any(read <= part for part in self.unchanged)


def parse_events(identity: CommitIdentity) -> tuple[ReplayEvent, ...]:
    """The actions that made a relation's rows what they are, as far back as its commit says."""
    try:
        return tuple(_decode_event(*row) for row in json.loads(identity.replays or "[]"))
    except (ValueError, TypeError):
        return ()


def _decode_event(
    run_id: str,
    scope: Scope,
    root: str,
    length: str,
    kind: CursorType | None,
    unchanged: list[list[str]],
    spans: list[list[str]] | None = None,
) -> ReplayEvent:
    windows = tuple((start, end) for start, end in spans or ())
    return ReplayEvent(
        run_id, Replay(scope, root, length, kind, windows), tuple(map(frozenset, unchanged)), spans is None
    )


def encode_events(before: Iterable[ReplayEvent], event: ReplayEvent | None) -> str:
    """The text to be committed with rows that an action made."""
    rows = [_encode_event(e) for e in _merge_events([*before, *([event] if event is not None else [])])]
    return json.dumps(rows, separators=(",", ":"))


def _encode_event(event: ReplayEvent) -> list[Any]:
    replay = event.replay
    row = [event.run_id, replay.scope, replay.root, replay.length, replay.cursor_type]
    unchanged = [sorted(part) for part in event.unchanged]
    return [*row, unchanged] if event.is_old else [*row, unchanged, [list(span) for span in replay.spans]]


def _merge_events(events: list[ReplayEvent]) -> list[ReplayEvent]:
    """The same events in fewer: two become one that does what both did, for all who have not seen the later one."""
    merged = list(events)
    at = 0
    while len(merged) > _EVENTS and at + 1 < len(merged):
        both = _merge_pair(merged[at], merged[at + 1])
        if both is None:
            at += 1
        else:
            merged[at : at + 2] = [both]
    return merged


def _merge_pair(first: ReplayEvent, second: ReplayEvent) -> ReplayEvent | None:
    """Two events as one; None when they replay windows of different kinds of cursors, which have nothing in common."""
    bounded = [e.replay for e in (first, second) if e.replay.scope == "bounded"]
    if len({replay.cursor_type for replay in bounded}) > 1:
        return None
    stronger = max(second, first, key=lambda e: e.replay.strength)
    replay = stronger.replay
    if replay.scope == "bounded":
        replay = replace(replay, spans=_list_spans(bounded))
    parts = {a & b for a in first.unchanged for b in second.unchanged}
    unchanged = tuple(sorted((part for part in parts if part), key=sorted))
    return ReplayEvent(second.run_id, replay, unchanged, stronger.is_old)


def encode_seen(inputs: Iterable[Input], relations: Mapping[Relation, RelationState]) -> str:
    """The text to be committed with rows made from these inputs: the last action of each."""
    last_events = {}
    for upstream_input in inputs:
        events = (
            _list_events(relations.get(upstream_input.relation))
            if upstream_input.relation and not upstream_input.external
            else ()
        )
        if events:
            last_events[upstream_input.key] = events[-1].run_id
    return json.dumps(last_events, separators=(",", ":"), sort_keys=True)


def list_signals(
    node: Node, project: Project, current: RelationState | None, relations: Mapping[Relation, RelationState]
) -> tuple[Signal, ...]:
    """What the inputs that changed since a node was built have done again since then."""
    if current is None:
        return ()
    signals: list[Signal] = []
    reads = resolve_column_reads(node, project)
    changes = list_changed_inputs(node, project, current, relations)
    views = {change.name for change in changes if change.view}
    for changed in changes:
        if changed.view and views.isdisjoint(_find_views_beneath(changed.name, project)):
            signals.append(Signal(changed.name, Replay("forward", changed.name)))
        elif changed.view:
            # A view counts as another one when one beneath it is: that is where it started.
            continue
        elif changed.external and _is_expression(changed.name, project):
            signals.append(Signal(changed.name, Replay("forward", changed.name)))
        elif not changed.external and changed.relation is not None:
            events = _list_events(relations.get(changed.relation))
            last = _parse_seen(current).get(changed.key, "")
            read = _restrict_to_columns(reads.get(changed.key, EVERYTHING), relations.get(changed.relation))
            signals += [
                Signal(changed.name, _derive_declared_replay(e, project))
                for e in _list_events_since(events, last)
                if e.is_relevant_to(read)
            ]
    return tuple(signals)


def _derive_declared_replay(event: ReplayEvent, project: Project) -> Replay:
    """What an event hands down: a scope only where an `incremental` model is the root of it."""
    root = project.nodes.get(event.replay.root)
    if event.is_old and root is not None and root.kind != "incremental":
        return Replay("forward", event.replay.root)
    return event.replay


def _is_expression(name: str, project: Project) -> bool:
    """Whether a source is a query, which stands in the place of its name as that of a view does."""
    source = project.sources.get(name)
    return source is not None and source.expression is not None


def _find_views_beneath(name: str, project: Project) -> set[str]:
    """The views that a view reads, directly or through others."""
    views: set[str] = set()
    stack = list(project.nodes[name].upstream)
    while stack:
        above = project.nodes.get(stack.pop())
        if above is not None and above.kind == "view" and above.name not in views:
            views.add(above.name)
            stack.extend(above.upstream)
    return views


def _restrict_to_columns(read: Read, current: RelationState | None) -> Read:
    """What is read of an input, without names that are not columns of it."""
    present = {name.lower() for name, *_ in current.version.shape} if current is not None else set()
    return read & present if present and not is_everything(read) else read


def _list_events(current: RelationState | None) -> tuple[ReplayEvent, ...]:
    return parse_events(current.known_identity) if current is not None else ()


def _parse_seen(current: RelationState) -> Mapping[str, str]:
    try:
        seen_events = json.loads(current.known_identity.replays_seen or "{}")
    except ValueError:
        return {}
    return seen_events if isinstance(seen_events, dict) else {}


def _list_events_since(events: tuple[ReplayEvent, ...], last: str) -> tuple[ReplayEvent, ...]:
    """The events after one that was seen; all when it is not among them any more."""
    ids = [e.run_id for e in events]
    return events[ids.index(last) + 1 :] if last in ids else events


def predict_replay(
    node: Node,
    reason: Reason,
    project: Project,
    current: RelationState | None,
    relations: Mapping[Relation, RelationState],
    above: Mapping[str, Replay],
) -> Replay | None:
    """What a node would do again if everything above it that runs changes its rows; `above` says what those do.

    A first build replays nothing: it has no readers yet.
    """
    if reason in _FIRST_BUILD_REASONS:
        return None
    coming = (Signal(i.name, above[i.name]) for i in list_inputs(node, project) if i.name in above)
    return resolve_replay(
        node, derive_own_replay(node, reason, current), (*list_signals(node, project, current, relations), *coming)
    )


_START_REASONS = (Reason.FIRST_RUN, Reason.RELATION_MISSING)
_DEFINITION_REASONS = (
    *_START_REASONS,
    Reason.QUERY_CHANGED,
    Reason.CONFIG_CHANGED,
    Reason.FUNCTION_CHANGED,
    Reason.SCHEMA_CHANGED,
)


def add_replay(
    planned: PlannedNode,
    node: Node,
    project: Project,
    observed: Observed,
    options: Options,
    above: dict[str, Replay],
) -> PlannedNode:
    """A node that runs, with what it does again; `above` is added to, for those that read it."""
    current = observed.get(node)
    replay = _clip_to_window(
        predict_replay(node, planned.reason, project, current, observed.relations, above), node, options
    )
    if replay is not None:
        above[node.name] = replay
    if node.kind != "incremental":
        return planned
    is_new = options.full_refresh or planned.reason in _START_REASONS
    if is_new:
        replay = Replay("full", node.name)
    anew = replay is not None and replay.scope == "full"
    run_type = "incremental" if not anew else "backfill" if planned.reason in _DEFINITION_REASONS else "full"
    words = _describe_run(node, current, replay, is_new, options)
    return replace(
        planned,
        run_type=run_type,  # type: ignore[arg-type]
        detail="; ".join(part for part in (planned.detail, words) if part),
        incremental={"class": "cursor", "why": _describe_manner(node)},
        replay={"scope": str(replay), "root": replay.root} if replay is not None else None,
    )


def _describe_manner(node: Node) -> str:
    cursor = build_cursor(node.settings)
    return f"{cursor.strategy} by {cursor.column}"


def compute_replay(
    node: Node, reason: Reason, project: Project, relations: Mapping[Relation, RelationState], options: Options
) -> Replay | None:
    """What a node replays, computed when everything above it has been built."""
    return _clip_to_window(
        predict_replay(node, reason, project, relations.get(node.relation), relations, {}), node, options
    )


def _clip_to_window(replay: Replay | None, node: Node, options: Options) -> Replay | None:
    """A window that was asked for is all that is done again."""
    if replay is None or get_window(node, options) is None:
        return replay
    return Replay("forward", replay.root)


def get_window(node: Node, options: Options) -> tuple[str | None, str | None] | None:
    """The window that a node is to be run for, where one was asked for."""
    if node.kind != "incremental" or not options.has_window:
        return None
    return options.start_cursor, options.end_cursor


def _describe_run(
    node: Node, current: RelationState | None, replay: Replay | None, is_new: bool, options: Options
) -> str:
    if options.has_window:
        return f"window [{options.start_cursor or '…'}, {options.end_cursor or '…'})"
    cursor = build_cursor(node.settings)
    if is_new:
        return f"from {cursor.start} on" if cursor.start is not None else ""
    if replay is not None and replay.scope != "forward":
        how = "replays everything" if replay.scope == "full" else _describe_window(node, replay)
        policy_text = f" (replay_on_change: {replay})" if get_policy(node) is not None else ""
        return f"{how}{policy_text}" if replay.root == node.name else f"{how}{policy_text}, as {replay.root} changed"
    largest = current.known_identity.cursor_max if current is not None else ""
    if not largest:
        return ""
    lookback = node.settings.get("lookback", "")
    return f"from {largest} on" + (f", less {lookback}" if cursor.lookback else "")


def _describe_window(node: Node, replay: Replay) -> str:
    """What a bounded replay covers: the windows that were replayed above, or how far back it goes from the end."""
    if not replay.spans:
        return f"replays the last {replay.length}"
    if get_policy(node) is not None:
        return f"replays the {replay.length} before {' and '.join(end for _, end in replay.spans)}, and all since"
    return f"replays from {' and '.join(start for start, _ in replay.spans)} on"
