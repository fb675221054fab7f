"""Whether what an environment is about to show can still be read."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.environments.values import Ref
from sqb.errors_environments import VersionGone
from sqb.lake.port import Lake, TableState
from sqb.names import Relation

_MOST = 5


def refuse_missing(lake: Lake, refs: Mapping[str, Ref]) -> None:
    """Refuse to show versions whose tables, or the snapshots of these, somebody has removed."""
    needed = {name: _reads(ref) for name, ref in refs.items()}
    pointers = lake.pointers()
    pinned = {r for reads in needed.values() for r, snapshot in reads if snapshot is not None}
    states = lake.tables([pointers[r] for r in pinned if r in pointers])
    gone: list[str] = []
    for name, reads in needed.items():
        for relation, snapshot in reads:
            if relation not in pointers:
                gone.append(f"{name}: {relation} is not in the catalog")
            elif snapshot is not None and not _has(lake, relation, snapshot, states):
                gone.append(f"{name}: {relation} has no snapshot {snapshot} any more")
    if gone:
        raise VersionGone(
            f"what {len(gone)} {'model' if len(gone) == 1 else 'models'} would show is gone",
            evidence=[*gone[:_MOST], *([f"and {len(gone) - _MOST} more"] if len(gone) > _MOST else [])],
            hint="it was dropped or expired outside sqb; a build makes it again",
        )


def _has(lake: Lake, relation: Relation, snapshot: int, states: Mapping[Relation, TableState]) -> bool:
    return snapshot == states[relation].snapshot_id or lake.has_snapshot(relation, snapshot)


def _reads(ref: Ref) -> list[tuple[Relation, int | None]]:
    """The tables and snapshots that a view needs, and what has no snapshots: views of models beneath it."""
    binding = ref.binding
    found: list[tuple[Relation, int | None]] = [(Relation.parse(r), s) for r, s in binding.reads]
    known = {r for r, _ in found}
    if binding.relation is not None and binding.relation not in known:
        found.append((binding.relation, binding.snapshot_id))
    return found
