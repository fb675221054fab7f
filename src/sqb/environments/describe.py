"""Environments and checkpoints as `sqb state` describes them, as values. Reads only the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqb.environments.model import Binding, Checkpoint, Environment, LockInfo, Status
from sqb.environments.promotion.rollback import choose_checkpoint
from sqb.environments.state.store import Store
from sqb.errors.environments import NoSuchEnvironment
from sqb.names import suggest_nearest


@dataclass(frozen=True, slots=True)
class EnvironmentSummary:
    """An environment with its size, checkpoint, lock and journal."""

    environment: Environment
    # How many nodes it shows, functions among them.
    nodes: int
    # The checkpoint that it is at, when that is kept.
    checkpoint: Checkpoint | None
    lock: LockInfo | None
    # Whether a command ended in the middle of moving it.
    unfinished: bool


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that is not the same in two checkpoints; one side is None where it is missing."""

    name: str
    before: Binding | None
    after: Binding | None

    @property
    def change(self) -> str:
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        if self.before.version_hash != self.after.version_hash:
            return "version"
        return "data" if self.before.snapshot_id != self.after.snapshot_id else "view"


def list_summaries(store: Store) -> list[EnvironmentSummary]:
    """All environments, by name."""
    with store.read_consistently():
        environments, sizes, journals = store.read_environments(), store.count_refs(), store.read_journals()
        checkpoints = {c.id: c for c in store.read_checkpoints()}
    locks = store.read_locks()
    return [
        EnvironmentSummary(
            environment, sizes.get(name, 0), checkpoints.get(environment.checkpoint), locks.get(name), name in journals
        )
        for name, environment in environments.items()
    ]


def get_environment(name: str, known: Mapping[str, Environment]) -> Environment:
    """The environment with this name; raises NoSuchEnvironment."""
    if name in known:
        return known[name]
    listed = f"there are {', '.join(known)}" if known else "there are none yet: a build makes the first"
    raise NoSuchEnvironment(f'there is no virtual environment "{name}"', hint=suggest_nearest(name, known) or listed)


def detach(environment: Environment) -> Environment:
    """The environment as detached: sqb refuses to move it until it is attached again."""
    if environment.status is Status.DETACHED:
        return environment
    return replace(environment, status=Status.DETACHED, was=environment.status.value)


def reattach(environment: Environment) -> Environment:
    """An environment with the status that it had before it was detached."""
    if environment.status is not Status.DETACHED:
        return environment
    return replace(environment, status=Status(environment.was or Status.ACTIVE), was="")


def find_checkpoint(
    reference: str, name: str, known: Mapping[str, Environment], checkpoints: Sequence[Checkpoint]
) -> Checkpoint:
    """A checkpoint by its id, whose environment does not matter, or by its number in the environment `name`."""
    if not reference.removeprefix("#").isdigit() or any(c.id == reference for c in checkpoints):
        matches = [c for c in checkpoints if c.id == reference] or [
            c for c in checkpoints if c.id.startswith(reference)
        ]
        if len(matches) == 1:
            return matches[0]
    return choose_checkpoint(get_environment(name, known), {}, checkpoints, reference)


def compare_checkpoints(before: Checkpoint, after: Checkpoint, bindings: Mapping[str, Binding]) -> Iterable[NodeChange]:
    """The nodes that are not the same in two checkpoints, by name."""
    for name in sorted(before.refs.keys() | after.refs.keys()):
        old, new = before.refs.get(name), after.refs.get(name)
        if old != new:
            yield NodeChange(name, bindings[old] if old else None, bindings[new] if new else None)
