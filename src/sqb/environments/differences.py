"""How two environments differ, node by node, and why: from their refs and what is kept of versions. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqb.build.column_changes import ColumnChange, column_changes, typed
from sqb.environments.port import VersionKey
from sqb.environments.values import Binding, Ref, Version
from sqb.graph import ordered
from sqb.lake.metadata import schema_columns
from sqb.plan.values import Reason

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
        found = self.now if self.now is not None else self.before
        assert found is not None
        return found


def differences(
    before: Mapping[str, Ref], now: Mapping[str, Ref], versions: Mapping[VersionKey, Version]
) -> tuple[Difference, ...]:
    """The nodes that differ, each after what it reads."""
    edges = {name: now.get(name, before.get(name)) for name in sorted({*before, *now})}
    order, cycles = ordered({n: r.binding.upstream for n, r in edges.items() if r is not None})
    names = [*order, *sorted({*edges} - {*order})] if cycles else order
    found = (_difference(name, before.get(name), now.get(name), versions) for name in names)
    return tuple(one for one in found if one is not None)


def _difference(
    name: str, before: Ref | None, now: Ref | None, versions: Mapping[VersionKey, Version]
) -> Difference | None:
    if before is None or now is None:
        there = before.binding if before is not None else None
        here = now.binding if now is not None else None
        return Difference(name, "added" if before is None else "removed", None, (), there, here)
    old, new = before.binding, now.binding
    if old.version_hash == new.version_hash:
        if old == new:
            return None
        return Difference(name, "data", None, (), old, new, _columns(old, new))
    through = tuple(u for u in sorted({*old.upstream, *new.upstream}) if old.upstream.get(u) != new.upstream.get(u))
    return Difference(name, "changed", _reason(old, new, versions), through, old, new, _columns(old, new))


def _reason(old: Binding, new: Binding, versions: Mapping[VersionKey, Version]) -> Reason:
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


def _columns(old: Binding, new: Binding) -> tuple[ColumnChange, ...]:
    if old.columns == new.columns:
        return ()
    sides = (typed(schema_columns({"fields": json.loads(b.columns)})) for b in (old, new))
    return column_changes(*sides)
