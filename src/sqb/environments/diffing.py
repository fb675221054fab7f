"""What `sqb diff` compares between two environments. Nothing is written, and only rows need Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqb.build.data_changes import Pasts
from sqb.compiled import Node
from sqb.environments.choosing import choose_node
from sqb.environments.differences import Difference, differences
from sqb.environments.port import Store, VersionKey
from sqb.environments.values import Binding, Ref, Version
from sqb.errors import CallError
from sqb.errors_environments import NoSuchEnvironment
from sqb.lake.iceberg import IcebergLake
from sqb.names import did_you_mean
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.diff import Question, Side


@dataclass(frozen=True, slots=True)
class Compared:
    """Two environments, and how they differ: what is in `source` against what is in `target`."""

    source: str
    target: str
    differences: tuple[Difference, ...]
    # How many nodes are the same in both.
    same: int
    # How many rows metadata tells of, by relation and snapshot; None where it tells nothing.
    rows: Mapping[tuple[str, int | None], int | None]
    versions: Mapping[tuple[str, str], Version]

    def rows_of(self, binding: Binding | None) -> int | None:
        return self.rows.get(_key(binding)) if binding is not None else None


def _key(binding: Binding) -> tuple[str, int | None]:
    return (str(binding.relation), binding.snapshot_id)


def compare(
    workspace: Workspace, store: Store, lake: IcebergLake, source: str, target: str, name: str | None = None
) -> Compared:
    """How an environment differs from another one, in all nodes or in one."""
    if source == target:
        raise CallError(f"both sides are the virtual environment {source}", hint="--from and --to name two of them")
    with store.looking():
        now, before, versions = _looked_up(workspace, store, source, target, name)
    found = differences(before, now, versions)
    pasts = Pasts(lake)
    bound = [b for d in found for b in (d.before, d.now) if b is not None and b.relation is not None]
    rows = {_key(b): _rows(b, pasts) for b in bound}
    return Compared(source, target, found, len({*now, *before}) - len(found), rows, versions)


def _looked_up(
    workspace: Workspace, store: Store, source: str, target: str, name: str | None
) -> tuple[Mapping[str, Ref], Mapping[str, Ref], Mapping[VersionKey, Version]]:
    """What the two environments show, and what the versions are that they do not have in common."""
    there = store.environments()
    for one in (source, target):
        if one not in there:
            known = f"there are {', '.join(there)}" if there else "`sqb build --virtual-env NAME` makes one"
            raise NoSuchEnvironment(f"there is no virtual environment {one}", hint=did_you_mean(one, there) or known)
    now, before = store.refs(source), store.refs(target)
    if name is not None:
        chosen = choose_node(name, workspace.project, now, before)
        now, before = _only(chosen, now), _only(chosen, before)
    keys = {(r.binding.name, r.binding.version_hash) for refs in (now, before) for r in refs.values()}
    shared = {(r.binding.name, r.binding.version_hash) for n, r in now.items() if before.get(n) == r}
    return now, before, store.versions(keys - shared) if keys - shared else {}


def _only(name: str, refs: Mapping[str, Ref]) -> dict[str, Ref]:
    return {name: refs[name]} if name in refs else {}


def _rows(binding: Binding, pasts: Pasts) -> int | None:
    if binding.relation is None or binding.snapshot_id is None:
        return None
    found = pasts.of(binding.relation).get(binding.snapshot_id)
    return found.rows if found is not None else None


def between_environments(
    workspace: Workspace, compared: Compared, difference: Difference, key: Sequence[str] = ()
) -> Question:
    """The rows that the target shows against those that the source does."""
    from sqb.build.diff import Question, own_key  # without rows nobody needs what it takes to compare them

    node = workspace.project.nodes.get(difference.name) or _unknown(difference.shown)
    assert difference.before is not None and difference.now is not None
    before, now = (
        _side(name, bound, compared)
        for name, bound in ((compared.target, difference.before), (compared.source, difference.now))
    )
    return Question(node, before, now, tuple(key) or own_key(node, history=True), bool(key))


def _side(environment: str, binding: Binding, compared: Compared) -> Side:
    from sqb.build.diff import Side

    assert binding.relation is not None
    text = binding.text
    return Side(
        environment,
        binding.relation,
        lambda session: session.sql(text),
        binding.snapshot_id,
        compared.rows_of(binding),
        environment,
    )


def _unknown(binding: Binding) -> Node:
    """A node that the project in this folder does not have."""
    assert binding.relation is not None
    kind = "seed" if binding.type == "seed" else "model"
    hashes = (binding.local_hash, "", "", binding.version_hash)
    return Node(binding.name, kind, binding.kind, binding.relation, "", *hashes)  # type: ignore[arg-type]
