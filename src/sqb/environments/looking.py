"""What `sqb state` tells of environments and checkpoints, as values. No I/O here but the store's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqb.environments.port import Store
from sqb.environments.rollback import choose_checkpoint
from sqb.environments.values import Binding, Checkpoint, Environment, LockInfo, Status
from sqb.errors_environments import NoSuchEnvironment
from sqb.names import did_you_mean


@dataclass(frozen=True, slots=True)
class Overview:
    """An environment and what is known around it."""

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


def overviews(store: Store) -> list[Overview]:
    """All environments, by name."""
    with store.looking():
        found, sizes, journals = store.environments(), store.sizes(), store.journals()
        checkpoints = {c.id: c for c in store.checkpoints()}
    locks = store.locks()
    return [
        Overview(one, sizes.get(name, 0), checkpoints.get(one.checkpoint), locks.get(name), name in journals)
        for name, one in found.items()
    ]


def existing(name: str, known: Mapping[str, Environment]) -> Environment:
    """The environment of a name; refuses one that is not there."""
    if name in known:
        return known[name]
    listed = f"there are {', '.join(known)}" if known else "there are none yet: a build makes the first"
    raise NoSuchEnvironment(f'there is no virtual environment "{name}"', hint=did_you_mean(name, known) or listed)


def detached(environment: Environment) -> Environment:
    """An environment that nobody may move until it is attached again."""
    if environment.status is Status.DETACHED:
        return environment
    return replace(environment, status=Status.DETACHED, was=environment.status.value)


def reattached(environment: Environment) -> Environment:
    """An environment with the status that it had before it was detached."""
    if environment.status is not Status.DETACHED:
        return environment
    return replace(environment, status=Status(environment.was or Status.ACTIVE), was="")


def find_checkpoint(
    wanted: str, name: str, known: Mapping[str, Environment], checkpoints: Sequence[Checkpoint]
) -> Checkpoint:
    """A checkpoint by its id, whose environment does not matter, or by its number in the environment `name`."""
    if not wanted.removeprefix("#").isdigit() or any(c.id == wanted for c in checkpoints):
        found = [c for c in checkpoints if c.id == wanted] or [c for c in checkpoints if c.id.startswith(wanted)]
        if len(found) == 1:
            return found[0]
    return choose_checkpoint(existing(name, known), {}, checkpoints, wanted)


def changes_between(before: Checkpoint, after: Checkpoint, bindings: Mapping[str, Binding]) -> Iterable[NodeChange]:
    """The nodes that are not the same in two checkpoints, by name."""
    for name in sorted(before.refs.keys() | after.refs.keys()):
        old, new = before.refs.get(name), after.refs.get(name)
        if old != new:
            yield NodeChange(name, bindings[old] if old else None, bindings[new] if new else None)
