"""Clones that share files only through snapshots that are no longer needed: without those they share nothing.

A clone begins with a snapshot of the table that it was made from, and has it still when all rows were written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
)

from sqb.lake.clones.materialize import CLONE_PROPERTIES
from sqb.lake.commit.snapshot import build_model
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.storage.locations import normalize_folder
from sqb.names import Relation

# Finds the snapshots of a table that are needed; None when that is unknown.
NeededSnapshots = Callable[[Relation], Collection[int] | None]


def expire_shared_snapshots(
    catalog: Catalog, relation: Relation, reachable: ReachableFiles, find_needed: NeededSnapshots, dry_run: bool
) -> tuple[int, ...] | None:
    """Expire the snapshots of a clone whose files it shares, and return their ids; None when it needs one of them."""
    needed = find_needed(relation)
    try:
        table = catalog.load_table((*relation.schema.split("."), relation.name))
    except NoSuchTableError:
        return None
    sharing = _find_sharing_snapshots(table, reachable)
    current = table.metadata.current_snapshot()
    # Those that branches and tags lead to are needed too, the current one among them.
    referenced = {ref.snapshot_id for ref in table.metadata.refs.values()}
    if needed is None or current is None or (referenced | set(needed)) & set(sharing):
        return None
    if dry_run:
        return sharing
    properties = [key for key in CLONE_PROPERTIES if key in table.metadata.properties]
    updates = (
        *((build_model(RemoveSnapshotsUpdate, snapshot_ids=list(sharing)),) if sharing else ()),
        build_model(RemovePropertiesUpdate, removals=properties),
    )
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        build_model(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id),
    )
    try:
        catalog.commit_table(table, requirements, updates)
    except (CommitFailedException, CommitStateUnknownException, NoSuchTableError):
        return None
    return sharing


def _find_sharing_snapshots(table: Table, reachable: ReachableFiles) -> tuple[int, ...]:
    """The snapshots of which a file lies in the place of another table."""
    home = f"{normalize_folder(table.metadata.location)}/"
    return tuple(
        s.snapshot_id
        for s in table.metadata.snapshots
        if any(not path.startswith(home) for path in reachable.list_snapshot_files([s], table.io))
    )
