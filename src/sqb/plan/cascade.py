"""How much of an `incremental` model is done again when a definition changed, its own or one above it.

A change of a definition goes `forward`, wherever above a model it was made: history is not dropped because a view or a
table was edited. Only the `replay_on_change` of an `incremental` model makes it `bounded` or `full`, and hands that
down, through views and tables. The action is committed with the rows that it made, as an event, and each reader commits
the last event that it has seen: so an action reaches its readers also when they fail, are not selected, or are built
much later. Of a bounded one the window is recorded, so that a reader that comes later replays the same window. New rows
of a source are no action, and neither is a table that is made from nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqb.compiled import Node, Project
from sqb.names import Relation
from sqb.plan.observed import Input, Standing, changed_inputs, inputs_of
from sqb.plan.schema import EVERYTHING, Read, is_everything, reads_of
from sqb.plan.values import Reason
from sqb.project.cursors import CursorType, Policy, length_of, type_of

Scope = Literal["forward", "bounded", "full"]
# In the commit of a model's rows: the actions that made them what they are, and those of its inputs that it has seen.
REPLAYS = "sqb.replays"
SEEN = "sqb.replays_seen"
# More events than these are joined, the oldest first.
_EVENTS = 8
_RANK: Mapping[Scope, int] = {"forward": 0, "bounded": 1, "full": 2}
_FROM_NOTHING = frozenset({Reason.FIRST_RUN, Reason.RELATION_MISSING})
CHANGED = frozenset({Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED})
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
        stretch = length_of(self.length, self.cursor_type) or 0 if self.cursor_type else 0
        return (_RANK[self.scope], stretch)


@dataclass(frozen=True, slots=True)
class Signal:
    """An action of an upstream model, as it arrives below."""

    upstream: str
    replay: Replay


def own_replay(node: Node, reason: Reason, standing: Standing | None) -> Replay | None:
    """What a node does again because it changed itself; None when it did not."""
    if node.type == "seed" or node.kind == "view":
        # The content of a seed is data; what a view changes is seen by those who read it.
        return None
    # Drift comes before a changed definition in the order of reasons, and may hide one.
    left = standing.local_hash if standing is not None and reason is Reason.CHANGED_OUTSIDE else ""
    if reason not in CHANGED and left in ("", node.local_hash):
        return None
    return _by_policy(node, policy_of(node) or Policy("forward"), node.name)


def policy_of(node: Node) -> Policy | None:
    """The `replay_on_change` that an `incremental` model declares itself."""
    written = node.settings.get("replay_on_change") if node.kind == "incremental" else None
    return Policy.parse(written) if written is not None else None


def resolve(node: Node, own: Replay | None, signals: Iterable[Signal]) -> Replay | None:
    """What a node does again, given what it does by itself and what its upstreams hand down."""
    found = strongest(node, signals)
    policy = policy_of(node)
    # A model without a policy of its own goes forward only as long as nothing above it asks for more.
    if own is not None and (policy is not None or found is None or found.strength <= own.strength):
        return replace(own, spans=found.spans) if found is not None and own.scope == "bounded" else own
    if found is None or policy is None:
        return found
    return replace(_by_policy(node, policy, found.root), spans=found.spans if policy.scope == "bounded" else ())


def strongest(node: Node, signals: Iterable[Signal]) -> Replay | None:
    """The most aggressive action that reaches a node; ties go to the upstream whose name comes first."""
    arrived = [Signal(s.upstream, _crossed(node, s.replay)) for s in signals]
    if not arrived:
        return None
    ordered = sorted(arrived, key=lambda s: (s.upstream, s.replay.root))
    found = max(ordered, key=lambda s: s.replay.strength).replay
    return replace(found, spans=_spans(s.replay for s in ordered)) if found.scope == "bounded" else found


def _spans(replays: Iterable[Replay]) -> tuple[Span, ...]:
    """All windows that were replayed: the longest of them need not be the one that goes back furthest."""
    return tuple(dict.fromkeys(span for replay in replays for span in replay.spans))


def _crossed(node: Node, replay: Replay) -> Replay:
    """An action as it is for a node: a bounded one means nothing on a cursor of another type."""
    if replay.scope != "bounded" or node.kind != "incremental" or replay.cursor_type == type_of(node.settings):
        return replay
    return Replay("forward", replay.root)


def _by_policy(node: Node, policy: Policy, root: str) -> Replay:
    if policy.scope != "bounded":
        return Replay(policy.scope, root)
    return Replay("bounded", root, policy.length, type_of(node.settings))


# --- what has been handed down so far --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """An action that was carried out, by the run that did."""

    run_id: str
    replay: Replay
    # The columns in which it left the rows as they were, as lists that hold together.
    unchanged: tuple[frozenset[str], ...] = ()
    # Recorded when whatever was rebuilt counted as a full replay.
    is_old: bool = False

    def reaches(self, read: Read) -> bool:
        """Whether it means something to somebody who reads these columns."""
        return is_everything(read) or not any(read <= part for part in self.unchanged)


def events_in(identity: Mapping[str, str]) -> tuple[Event, ...]:
    """The actions that made a relation's rows what they are, as far back as its commit says."""
    try:
        return tuple(_event(*row) for row in json.loads(identity.get(REPLAYS, "[]")))
    except (ValueError, TypeError):
        return ()


def _event(
    run_id: str,
    scope: Scope,
    root: str,
    length: str,
    kind: CursorType | None,
    unchanged: list[list[str]],
    spans: list[list[str]] | None = None,
) -> Event:
    windows = tuple((start, end) for start, end in spans or ())
    return Event(run_id, Replay(scope, root, length, kind, windows), tuple(map(frozenset, unchanged)), spans is None)


def record_events(before: Iterable[Event], event: Event | None) -> str:
    """The text to be committed with rows that an action made."""
    rows = [_row(e) for e in _joined([*before, *([event] if event is not None else [])])]
    return json.dumps(rows, separators=(",", ":"))


def _row(event: Event) -> list[Any]:
    replay = event.replay
    row = [event.run_id, replay.scope, replay.root, replay.length, replay.cursor_type]
    unchanged = [sorted(part) for part in event.unchanged]
    return [*row, unchanged] if event.is_old else [*row, unchanged, [list(span) for span in replay.spans]]


def _joined(events: list[Event]) -> list[Event]:
    """The same events in fewer: two become one that does what both did, for all who have not seen the later one."""
    found = list(events)
    at = 0
    while len(found) > _EVENTS and at + 1 < len(found):
        both = _both(found[at], found[at + 1])
        if both is None:
            at += 1
        else:
            found[at : at + 2] = [both]
    return found


def _both(one: Event, two: Event) -> Event | None:
    """Two events as one; None when they replay windows of different kinds of cursors, which have nothing in common."""
    bounded = [e.replay for e in (one, two) if e.replay.scope == "bounded"]
    if len({replay.cursor_type for replay in bounded}) > 1:
        return None
    stronger = max(two, one, key=lambda e: e.replay.strength)
    replay = stronger.replay
    if replay.scope == "bounded":
        replay = replace(replay, spans=_spans(bounded))
    parts = {a & b for a in one.unchanged for b in two.unchanged}
    unchanged = tuple(sorted((part for part in parts if part), key=sorted))
    return Event(two.run_id, replay, unchanged, stronger.is_old)


def record_seen(inputs: Iterable[Input], relations: Mapping[Relation, Standing]) -> str:
    """The text to be committed with rows made from these inputs: the last action of each."""
    seen = {}
    for found in inputs:
        events = _events(relations.get(found.relation)) if found.relation and not found.external else ()
        if events:
            seen[found.key] = events[-1].run_id
    return json.dumps(seen, separators=(",", ":"), sort_keys=True)


def signals_of(
    node: Node, project: Project, standing: Standing | None, relations: Mapping[Relation, Standing]
) -> tuple[Signal, ...]:
    """What the inputs that changed since a node was built have done again since then."""
    if standing is None:
        return ()
    found: list[Signal] = []
    reads = reads_of(node, project)
    changes = changed_inputs(node, project, standing, relations)
    views = {one.name for one in changes if one.view}
    for changed in changes:
        if changed.view and views.isdisjoint(_views_beneath(changed.name, project)):
            found.append(Signal(changed.name, Replay("forward", changed.name)))
        elif changed.view:
            # A view counts as another one when one beneath it is: that is where it started.
            continue
        elif not changed.external and changed.relation is not None:
            events = _events(relations.get(changed.relation))
            last = _seen(standing).get(changed.key, "")
            read = _of_columns(reads.get(changed.key, EVERYTHING), relations.get(changed.relation))
            found += [Signal(changed.name, _declared(e, project)) for e in _since(events, last) if e.reaches(read)]
    return tuple(found)


def _declared(event: Event, project: Project) -> Replay:
    """What an event hands down: a scope only where an `incremental` model is the root of it."""
    root = project.nodes.get(event.replay.root)
    if event.is_old and root is not None and root.kind != "incremental":
        return Replay("forward", event.replay.root)
    return event.replay


def _views_beneath(name: str, project: Project) -> set[str]:
    """The views that a view reads, directly or through others."""
    found: set[str] = set()
    stack = list(project.nodes[name].upstream)
    while stack:
        above = project.nodes.get(stack.pop())
        if above is not None and above.kind == "view" and above.name not in found:
            found.add(above.name)
            stack.extend(above.upstream)
    return found


def _of_columns(read: Read, standing: Standing | None) -> Read:
    """What is read of an input, without names that are no columns of it."""
    present = {name.lower() for name, *_ in standing.version.shape} if standing is not None else set()
    return read & present if present and not is_everything(read) else read


def _events(standing: Standing | None) -> tuple[Event, ...]:
    return events_in(standing.identity or standing.left) if standing is not None else ()


def _seen(standing: Standing) -> Mapping[str, str]:
    try:
        found = json.loads((standing.identity or standing.left).get(SEEN, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _since(events: tuple[Event, ...], last: str) -> tuple[Event, ...]:
    """The events after one that was seen; all when it is not among them any more."""
    ids = [e.run_id for e in events]
    return events[ids.index(last) + 1 :] if last in ids else events


def predicted(
    node: Node,
    reason: Reason,
    project: Project,
    standing: Standing | None,
    relations: Mapping[Relation, Standing],
    above: Mapping[str, Replay],
) -> Replay | None:
    """What a node would do again if everything above it that runs changes its rows; `above` says what those do.

    What is made from nothing does nothing again: nobody has read what it was.
    """
    if reason in _FROM_NOTHING:
        return None
    coming = (Signal(i.name, above[i.name]) for i in inputs_of(node, project) if i.name in above)
    return resolve(node, own_replay(node, reason, standing), (*signals_of(node, project, standing, relations), *coming))
