"""What of virtual environments may go, decided from facts alone: nothing here looks at a store or a lake.

Environments go first, then checkpoints, then what neither refers to any more: each decision is made of what the ones
before it left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqb.environments.port import VersionKey
from sqb.environments.values import Binding, Checkpoint, Environment, Journal, Ref, Status, Version


@dataclass(frozen=True, slots=True)
class Known:
    """What a store says at one moment."""

    environments: Mapping[str, Environment] = field(default_factory=dict)
    # By environment, and there by the nodes' names.
    refs: Mapping[str, Mapping[str, Ref]] = field(default_factory=dict)
    journals: Mapping[str, Journal] = field(default_factory=dict)
    checkpoints: Sequence[Checkpoint] = ()
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    versions: Mapping[VersionKey, Version] = field(default_factory=dict)
    # Physical relations that nothing referred to in an earlier round, and since when.
    unused: Mapping[str, datetime] = field(default_factory=dict)
    # Physical relations that other projects and targets refer to.
    elsewhere: frozenset[str] = frozenset()

    @property
    def own(self) -> frozenset[str]:
        """The physical relations that this project and target made, and that are nobody else's."""
        made = (v.relation for v in self.versions.values())
        bound = (b.relation for b in self.bindings.values())
        return frozenset(str(r) for r in (*made, *bound) if r is not None) - self.elsewhere


@dataclass(frozen=True, slots=True)
class Needed:
    """What environments and checkpoints count on."""

    relations: frozenset[str]
    versions: frozenset[VersionKey]
    # Snapshots of tables that views show, or would show after a rollback.
    snapshots: Mapping[str, frozenset[int]]


def expired_environments(known: Known, protected: Collection[str], now: datetime) -> tuple[str, ...]:
    """The environments that have not been built or promoted to for longer than they were meant to live.

    Those in `protected` never go, and neither does one that another began as, or that is detached.
    """
    begun_as = {e.baseline for e in known.environments.values() if e.baseline != e.name}
    kept = {*protected, *begun_as}
    return tuple(sorted(n for n, e in known.environments.items() if n not in kept and is_expired(e, now)))


def is_expired(environment: Environment, now: datetime) -> bool:
    """Whether an environment has lived for longer than it was meant to."""
    if environment.ttl is None or environment.status is Status.DETACHED:
        return False
    return environment.updated_at + timedelta(seconds=environment.ttl) < now


def spare_checkpoints(
    position: str, checkpoints: Iterable[Checkpoint], keep: int, pending: Collection[str] = ()
) -> tuple[str, ...]:
    """The checkpoints of an environment that are beyond the number to keep, oldest first.

    Kept are the newest, and as many on the way back from where the environment is; `pending` are those that it is about
    to be at.
    """
    by_id = {c.id: c for c in checkpoints}
    newest = sorted(by_id.values(), key=_age, reverse=True)[: max(1, keep)]
    kept = {c.id for c in newest} | set(pending)
    for start in (position, *pending):
        kept.update(_way_back(start, by_id, max(1, keep)))
    return tuple(c.id for c in sorted(by_id.values(), key=_age) if c.id not in kept)


def _age(checkpoint: Checkpoint) -> tuple[datetime, int, str]:
    return (checkpoint.created_at, checkpoint.number, checkpoint.id)


def _way_back(start: str, by_id: Mapping[str, Checkpoint], steps: int) -> Iterator[str]:
    seen: set[str] = set()
    while start in by_id and start not in seen and len(seen) < steps:
        seen.add(start)
        yield start
        start = by_id[start].parent


def without(known: Known, environments: Collection[str], checkpoints: Collection[str]) -> Known:
    """What a store would say without some environments and checkpoints."""
    left = [c for c in known.checkpoints if c.environment not in environments and c.id not in checkpoints]
    return replace(
        known,
        environments={n: e for n, e in known.environments.items() if n not in environments},
        refs={n: r for n, r in known.refs.items() if n not in environments},
        journals={n: j for n, j in known.journals.items() if n not in environments},
        checkpoints=left,
    )


def what_is_needed(known: Known) -> Needed:
    """Everything that a ref, a checkpoint or an unfinished move leads to."""
    relations: set[str] = set()
    versions: set[VersionKey] = set()
    snapshots: dict[str, set[int]] = {}
    for binding in _bound(known):
        versions.add((binding.name, binding.version_hash))
        if binding.relation is not None:
            relations.add(str(binding.relation))
        for relation, snapshot in binding.reads:
            relations.add(relation)
            snapshots.setdefault(relation, set()).add(snapshot)
        if binding.relation is not None and binding.snapshot_id is not None:
            snapshots.setdefault(str(binding.relation), set()).add(binding.snapshot_id)
        # A view reads by name what it was made from, wherever environments have got to since.
        above = known.versions if binding.kind == "view" else {}
        made_from = (above.get(key) for key in binding.upstream.items())
        relations.update(str(v.relation) for v in made_from if v is not None and v.relation is not None)
    return Needed(frozenset(relations), frozenset(versions), {r: frozenset(found) for r, found in snapshots.items()})


def _bound(known: Known) -> Iterator[Binding]:
    for refs in (*known.refs.values(), *(j.refs for j in known.journals.values())):
        for ref in refs.values():
            yield ref.binding
    ids = {i for c in _all_checkpoints(known) for i in c.refs.values()}
    yield from (known.bindings[i] for i in sorted(ids) if i in known.bindings)


def _all_checkpoints(known: Known) -> Iterator[Checkpoint]:
    yield from known.checkpoints
    yield from (j.checkpoint for j in known.journals.values() if j.checkpoint is not None)


def unused_since(known: Known, standing: Collection[str], now: datetime) -> dict[str, datetime]:
    """The physical relations of this project and target that nothing refers to, and since when that is known."""
    spare = (known.own & set(standing)) - what_is_needed(known).relations
    return {relation: min(known.unused.get(relation, now), now) for relation in sorted(spare)}


def past_grace(since: Mapping[str, datetime], grace: float, now: datetime) -> tuple[str, ...]:
    """Those that nothing has referred to for longer than the grace time."""
    return tuple(r for r, first in since.items() if first + timedelta(seconds=grace) <= now)


def forgotten_versions(known: Known, standing: Collection[str], grace: float, now: datetime) -> tuple[VersionKey, ...]:
    """The versions that nothing refers to and that have no table any more, or never had one."""
    needed = what_is_needed(known)
    there = {*standing, *needed.relations}
    return tuple(
        key
        for key, version in sorted(known.versions.items(), key=lambda one: one[0])
        if key not in needed.versions
        and (version.relation is None or str(version.relation) not in there)
        and (version.created_at is None or version.created_at + timedelta(seconds=grace) <= now)
    )
