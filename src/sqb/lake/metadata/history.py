"""The past of a table as its metadata has it: every snapshot that can still be read, and what happened between two.

Works on the plain metadata document, without pyiceberg.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqb.lake.metadata.table_state import parse_columns
from sqb.lake.port import PastSnapshot
from sqb.light_dataclass import dataclass
from sqb.plan.recorded.commit_identity import CommitIdentity

# Equality deletes hide an unknown number of rows.
_EQUALITY = "added-equality-deletes"


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The rows added and removed between two snapshots; with `exact` false they are an upper bound."""

    added: int | None
    removed: int | None
    exact: bool


UNKNOWN = RowChanges(None, None, False)


def read_history(document: Mapping[str, Any]) -> dict[int, PastSnapshot]:
    """Every snapshot of a table by its id, oldest first."""
    schemas = {s.get("schema-id", 0): s for s in document.get("schemas") or (document.get("schema", {}),)}
    current = document.get("current-schema-id", 0)
    snapshots = sorted(document.get("snapshots") or (), key=lambda s: (s.get("timestamp-ms", 0), s["snapshot-id"]))
    return {s["snapshot-id"]: _parse_snapshot(s, schemas, current) for s in snapshots}


def _parse_snapshot(snapshot: Mapping[str, Any], schemas: Mapping[int, Any], current: int) -> PastSnapshot:
    summary = snapshot.get("summary") or {}
    is_counted = "total-data-files" in summary and summary.get(_EQUALITY, "0") == "0"
    hidden = int(summary.get("added-position-deletes", 0))
    total = summary.get("total-records")
    identity = CommitIdentity.from_properties(summary)
    return PastSnapshot(
        id=snapshot["snapshot-id"],
        at=datetime.fromtimestamp(snapshot.get("timestamp-ms", 0) / 1000, UTC),
        columns=parse_columns(schemas.get(snapshot.get("schema-id", current), {})),
        parent=snapshot.get("parent-snapshot-id"),
        operation=summary.get("operation", ""),
        added_rows=int(summary.get("added-records", 0)) if is_counted else None,
        removed_rows=int(summary.get("deleted-records", 0)) + hidden if is_counted else None,
        rows=int(total) if total is not None and summary.get("total-delete-files", "0") == "0" else None,
        run_id=identity.run_id,
        figures=identity.figures,
    )


def compute_row_changes(history: Mapping[int, PastSnapshot], old: int | None, new: int | None) -> RowChanges:
    """What the snapshots after `old` up to `new` added and removed; unknown where one does not lead to the other."""
    steps: list[PastSnapshot] = []
    at = new
    while at != old:
        snapshot = history.get(at) if at is not None else None
        if snapshot is None or len(steps) > len(history):
            return UNKNOWN
        steps.append(snapshot)
        at = snapshot.parent
    # Compaction changes no rows, whatever its summary counts.
    steps = [s for s in steps if s.operation != "replace"]
    if any(s.added_rows is None or s.removed_rows is None for s in steps):
        return UNKNOWN
    added = sum(s.added_rows or 0 for s in steps)
    removed = sum(s.removed_rows or 0 for s in steps)
    # Where rows were only added, or only removed, no row is counted that both snapshots have.
    return RowChanges(added, removed, exact=not added or not removed)
