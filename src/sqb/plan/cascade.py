"""How much of an `incremental` model is done again when a definition changed, its own or one above it.

A change of a definition makes a node act: what is rebuilt replays everything, an `incremental` model what its
`replay_on_change` says, what only goes on replays nothing. The action is handed down. It is committed with the rows
that it made, as an event, and whoever reads them commits which event was the last that it has seen: so an action
reaches its readers also when they fail, are not selected, or are built much later. New rows of a source are no action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

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
_KEPT = 8
_RANK: Mapping[Scope, int] = {"forward": 0, "bounded": 1, "full": 2}
_ANEW = frozenset({Reason.FIRST_RUN, Reason.RELATION_MISSING, Reason.FULL_REFRESH})
_CHANGED = frozenset({Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED})
# Their rows stay when their definition changes: what is below them finds the new ones by its cursor.
_GOES_ON = ("append", "scd2")


@dataclass(frozen=True, slots=True)
class Replay:
    """What is done again, and the node whose change is the cause of it."""

    scope: Scope
    root: str
    # Of a bounded one: how far it goes back from the end, as written, and on what kind of cursor.
    length: str = ""
    cursor_type: CursorType | None = None

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
    if reason in _ANEW:
        return Replay("full", node.name)
    # Drift comes before a changed definition in the order of reasons, and may hide one.
    left = standing.local_hash if standing is not None and reason is Reason.CHANGED_OUTSIDE else ""
    if reason not in _CHANGED and left in ("", node.local_hash):
        return None
    if node.kind == "incremental":
        return _by_policy(node, policy_of(node) or Policy("forward"), node.name)
    return Replay("forward" if node.kind in _GOES_ON else "full", node.name)


def policy_of(node: Node) -> Policy | None:
    """The `replay_on_change` that a model declares itself."""
    written = node.settings.get("replay_on_change")
    return Policy.parse(written) if written is not None else None


def resolve(node: Node, own: Replay | None, signals: Iterable[Signal]) -> Replay | None:
    """What a node does again, given what it does by itself and what its upstreams hand down."""
    found = strongest(node, signals)
    policy = policy_of(node)
    # A model without a policy of its own goes forward only as long as nothing above it asks for more.
    if own is not None and (policy is not None or found is None or found.strength <= own.strength):
        return own
    if found is None:
        return None
    if node.kind != "incremental":
        # Whatever is replayed above, all rows of a table are computed from it.
        return found if found.scope == "forward" else Replay("full", found.root)
    return found if policy is None else _by_policy(node, policy, found.root)


def strongest(node: Node, signals: Iterable[Signal]) -> Replay | None:
    """The most aggressive action that reaches a node; ties go to the upstream whose name comes first."""
    arrived = [Signal(s.upstream, _crossed(node, s.replay)) for s in signals]
    if not arrived:
        return None
    ordered = sorted(arrived, key=lambda s: (s.upstream, s.replay.root))
    return max(ordered, key=lambda s: s.replay.strength).replay


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

    def reaches(self, read: Read) -> bool:
        """Whether it means something to somebody who reads these columns."""
        return is_everything(read) or not any(read <= part for part in self.unchanged)


def events_in(identity: Mapping[str, str]) -> tuple[Event, ...]:
    """The actions that made a relation's rows what they are, as far back as its commit says."""
    try:
        rows = json.loads(identity.get(REPLAYS, "[]"))
        return tuple(
            Event(run_id, Replay(scope, root, length, kind), tuple(map(frozenset, unchanged)))
            for run_id, scope, root, length, kind, unchanged in rows
        )
    except (ValueError, TypeError):
        return ()


def record_events(before: Iterable[Event], event: Event | None) -> str:
    """The text to be committed with rows that an action made."""
    rows = [
        [e.run_id, r.scope, r.root, r.length, r.cursor_type, [sorted(part) for part in e.unchanged]]
        for e in [*before, *([event] if event is not None else [])][-_KEPT:]
        for r in [e.replay]
    ]
    return json.dumps(rows, separators=(",", ":"))


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
            found.append(Signal(changed.name, Replay("full", changed.name)))
        elif changed.view:
            # A view counts as another one when one beneath it is: that is where it started.
            continue
        elif not changed.external and changed.relation is not None:
            events = _events(relations.get(changed.relation))
            last = _seen(standing).get(changed.key, "")
            read = _of_columns(reads.get(changed.key, EVERYTHING), relations.get(changed.relation))
            found += [Signal(changed.name, e.replay) for e in _since(events, last) if e.reaches(read)]
            if len(events) == _KEPT and last not in [e.run_id for e in events]:
                # What is older than the events that are kept may have been anything.
                found.append(Signal(changed.name, Replay("full", changed.name)))
    return tuple(found)


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
    """What a node would do again if everything above it that runs changes its rows; `above` says what those do."""
    coming = (Signal(i.name, above[i.name]) for i in inputs_of(node, project) if i.name in above)
    return resolve(node, own_replay(node, reason, standing), (*signals_of(node, project, standing, relations), *coming))
