"""Whether what an environment is about to show can still be read."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.environments.model import Ref
from sqb.errors.environments import VersionGone
from sqb.lake.port import Lake, TableState
from sqb.names import Relation

_MAX_SHOWN = 5


def validate_refs(lake: Lake, refs: Mapping[str, Ref]) -> None:
    """Raise VersionGone for refs whose tables or snapshots have been removed."""
    needed = {name: _list_reads(ref) for name, ref in refs.items()}
    pointers = lake.list_pointers()
    pinned = {r for reads in needed.values() for r, snapshot in reads if snapshot is not None}
    states = lake.read_tables([pointers[r] for r in pinned if r in pointers])
    missing: list[str] = []
    for name, reads in needed.items():
        for relation, snapshot in reads:
            if relation not in pointers:
                missing.append(f"{name}: {relation} is not in the catalog")
            elif snapshot is not None and not _has_snapshot(lake, relation, snapshot, states):
                missing.append(f"{name}: {relation} no longer has snapshot {snapshot}")
    if missing:
        raise VersionGone(
            f"what {len(missing)} {'model' if len(missing) == 1 else 'models'} would show is gone",
            evidence=[
                *missing[:_MAX_SHOWN],
                *([f"and {len(missing) - _MAX_SHOWN} more"] if len(missing) > _MAX_SHOWN else []),
            ],
            hint="it was dropped or expired outside sqb; a build makes it again",
        )


def _has_snapshot(lake: Lake, relation: Relation, snapshot: int, states: Mapping[Relation, TableState]) -> bool:
    return snapshot == states[relation].snapshot_id or lake.has_snapshot(relation, snapshot)


def _list_reads(ref: Ref) -> list[tuple[Relation, int | None]]:
    """The tables and snapshots that a view needs, and what has no snapshots: views of models beneath it."""
    binding = ref.binding
    reads: list[tuple[Relation, int | None]] = [(Relation.parse(r), s) for r, s in binding.reads]
    known = {r for r, _ in reads}
    if binding.relation is not None and binding.relation not in known:
        reads.append((binding.relation, binding.snapshot_id))
    return reads
