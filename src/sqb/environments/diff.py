"""What `sqb diff` compares between two environments. Nothing is written, and only rows need Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqb.build.observe.snapshots import SnapshotHistories
from sqb.compile.model import Node
from sqb.environments.model import Binding, Ref, Version
from sqb.environments.selection import select_node
from sqb.environments.state.store import Store, VersionKey
from sqb.errors.call import CallError
from sqb.errors.environments import NoSuchEnvironment
from sqb.graph import sort_topologically
from sqb.inspect.diff import ColumnChange, list_column_changes, list_typed_columns
from sqb.lake.metadata.table_state import parse_columns
from sqb.lake.port import Lake
from sqb.names import suggest_nearest
from sqb.plan.model import Reason
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.inspect.diff import DiffRequest, Side


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two environments, and how they differ: what is in `source` against what is in `target`."""

    source: str
    target: str
    differences: tuple[Difference, ...]
    # How many nodes are the same in both.
    unchanged: int
    # Row counts from the metadata, by relation and snapshot; None where the metadata has none.
    rows: Mapping[tuple[str, int | None], int | None]
    versions: Mapping[tuple[str, str], Version]

    def get_rows(self, binding: Binding | None) -> int | None:
        return self.rows.get(_snapshot_key(binding)) if binding is not None else None


def _snapshot_key(binding: Binding) -> tuple[str, int | None]:
    return (str(binding.relation), binding.snapshot_id)


def compare_environments(
    workspace: Workspace, store: Store, lake: Lake, source: str, target: str, name: str | None = None
) -> Comparison:
    """How an environment differs from another one, in all nodes or in one."""
    if source == target:
        raise CallError(f"both sides are the virtual environment {source}", hint="--from and --to name two of them")
    with store.read_consistently():
        now, before, versions = _read_sides(workspace, store, source, target, name)
    changed = find_differences(before, now, versions)
    histories = SnapshotHistories(lake)
    bindings = [b for d in changed for b in (d.before, d.now) if b is not None and b.relation is not None]
    rows = {_snapshot_key(b): _count_rows(b, histories) for b in bindings}
    return Comparison(source, target, changed, len({*now, *before}) - len(changed), rows, versions)


def _read_sides(
    workspace: Workspace, store: Store, source: str, target: str, name: str | None
) -> tuple[Mapping[str, Ref], Mapping[str, Ref], Mapping[VersionKey, Version]]:
    """What the two environments show, and what the versions are that they do not have in common."""
    environments = store.read_environments()
    for environment in (source, target):
        if environment not in environments:
            known = (
                f"there are {', '.join(environments)}" if environments else "`sqb build --virtual-env NAME` makes one"
            )
            raise NoSuchEnvironment(
                f"there is no virtual environment {environment}",
                hint=suggest_nearest(environment, environments) or known,
            )
    now, before = store.read_refs(source), store.read_refs(target)
    if name is not None:
        node = select_node(name, workspace.project, now, before)
        now, before = _filter_refs(node, now), _filter_refs(node, before)
    keys = {(r.binding.name, r.binding.version_hash) for refs in (now, before) for r in refs.values()}
    shared = {(r.binding.name, r.binding.version_hash) for n, r in now.items() if before.get(n) == r}
    return now, before, store.read_versions(keys - shared) if keys - shared else {}


def _filter_refs(name: str, refs: Mapping[str, Ref]) -> dict[str, Ref]:
    return {name: refs[name]} if name in refs else {}


def _count_rows(binding: Binding, histories: SnapshotHistories) -> int | None:
    if binding.relation is None or binding.snapshot_id is None:
        return None
    snapshot = histories.get(binding.relation).get(binding.snapshot_id)
    return snapshot.rows if snapshot is not None else None


def build_question(
    workspace: Workspace, compared: Comparison, difference: Difference, key: Sequence[str] = ()
) -> DiffRequest:
    """The rows that the target shows against those that the source does."""
    from sqb.inspect.diff import DiffRequest, get_declared_key  # only a comparison of rows needs it

    node = workspace.project.nodes.get(difference.name) or _build_node(difference.shown)
    assert difference.before is not None and difference.now is not None
    before, now = (
        _build_side(name, bound, compared)
        for name, bound in ((compared.target, difference.before), (compared.source, difference.now))
    )
    return DiffRequest(node, before, now, tuple(key) or get_declared_key(node, history=True), bool(key))


def _build_side(environment: str, binding: Binding, compared: Comparison) -> Side:
    from sqb.inspect.diff import Side

    assert binding.relation is not None
    text = binding.text
    return Side(
        environment,
        binding.relation,
        lambda session: session.sql(text),
        binding.snapshot_id,
        compared.get_rows(binding),
        environment,
    )


def _build_node(binding: Binding) -> Node:
    """A node that the project in this folder does not have."""
    assert binding.relation is not None
    kind = "seed" if binding.type == "seed" else "model"
    hashes = (binding.local_hash, "", "", binding.version_hash)
    return Node(binding.name, kind, binding.kind, binding.relation, "", *hashes)  # type: ignore[arg-type]


Change = Literal["added", "removed", "changed", "data"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A node that one environment shows otherwise than the other, or not at all."""

    name: str
    # data: the same version, with other rows.
    change: Change
    # Why the versions differ; None where there are not two of them.
    reason: Reason | None
    # The nodes above that it reads other versions of.
    through: tuple[str, ...]
    before: Binding | None
    now: Binding | None
    columns: tuple[ColumnChange, ...] = ()

    @property
    def shown(self) -> Binding:
        binding = self.now if self.now is not None else self.before
        assert binding is not None
        return binding

    @property
    def has_same_snapshot(self) -> bool:
        """Both sides show one snapshot, in a table or in its clone, which has the same rows then."""
        if self.before is None or self.now is None or self.columns:
            return False
        return self.now.snapshot_id is not None and self.before.snapshot_id == self.now.snapshot_id


def find_differences(
    before: Mapping[str, Ref], now: Mapping[str, Ref], versions: Mapping[VersionKey, Version]
) -> tuple[Difference, ...]:
    """The nodes that differ, each after what it reads."""
    edges = {name: now.get(name, before.get(name)) for name in sorted({*before, *now})}
    order, cycles = sort_topologically({n: r.binding.upstream for n, r in edges.items() if r is not None})
    names = [*order, *sorted({*edges} - {*order})] if cycles else order
    candidates = (_compare_node(name, before.get(name), now.get(name), versions) for name in names)
    return tuple(difference for difference in candidates if difference is not None)


def _compare_node(
    name: str, before: Ref | None, now: Ref | None, versions: Mapping[VersionKey, Version]
) -> Difference | None:
    if before is None or now is None:
        old_binding = before.binding if before is not None else None
        new_binding = now.binding if now is not None else None
        return Difference(name, "added" if before is None else "removed", None, (), old_binding, new_binding)
    old, new = before.binding, now.binding
    if old.version_hash == new.version_hash:
        if old == new:
            return None
        return Difference(name, "data", None, (), old, new, _compare_columns(old, new))
    through = tuple(u for u in sorted({*old.upstream, *new.upstream}) if old.upstream.get(u) != new.upstream.get(u))
    return Difference(
        name, "changed", _derive_reason(old, new, versions), through, old, new, _compare_columns(old, new)
    )


def _derive_reason(old: Binding, new: Binding, versions: Mapping[VersionKey, Version]) -> Reason:
    """Why a node has two versions, with the precedence that plans have."""
    if new.type == "function":
        return Reason.FUNCTION_CHANGED
    then, today = versions.get((old.name, old.version_hash)), versions.get((new.name, new.version_hash))
    if old.local_hash == new.local_hash:
        settings = {version.settings for version in (then, today) if version is not None}
        if len(settings - {None}) > 1:
            return Reason.CONFIG_CHANGED
        return Reason.UPSTREAM_CHANGED if old.upstream != new.upstream else Reason.SOURCE_CHANGED
    if then is None or today is None or then.query_hash != today.query_hash:
        return Reason.QUERY_CHANGED
    return Reason.CONFIG_CHANGED if then.config_hash != today.config_hash else Reason.FUNCTION_CHANGED


def _compare_columns(old: Binding, new: Binding) -> tuple[ColumnChange, ...]:
    if old.columns == new.columns:
        return ()
    sides = (list_typed_columns(parse_columns({"fields": json.loads(b.columns)})) for b in (old, new))
    return list_column_changes(*sides)
