"""Clones that share files only for the sake of snapshots that nobody needs: without those they share nothing.

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

from sqb.lake.independence import SAID
from sqb.lake.locations import real_folder
from sqb.lake.reach import Reach
from sqb.lake.snapshots import made
from sqb.names import Relation

# The snapshots of a table that somebody counts on; None when nobody can tell.
Counted = Callable[[Relation], Collection[int] | None]


def shed(catalog: Catalog, relation: Relation, reach: Reach, counted: Counted, dry_run: bool) -> tuple[int, ...] | None:
    """Let a clone forget the snapshots whose files it shares, and tell them; None when it needs one of them."""
    needed = counted(relation)
    try:
        table = catalog.load_table((*relation.schema.split("."), relation.name))
    except NoSuchTableError:
        return None
    sharing = _sharing(table, reach)
    current = table.metadata.current_snapshot()
    # Those that branches and tags lead to are needed too, the current one among them.
    led_to = {ref.snapshot_id for ref in table.metadata.refs.values()}
    if needed is None or current is None or (led_to | set(needed)) & set(sharing):
        return None
    if dry_run:
        return sharing
    properties = [key for key in SAID if key in table.metadata.properties]
    updates = (
        *((made(RemoveSnapshotsUpdate, snapshot_ids=list(sharing)),) if sharing else ()),
        made(RemovePropertiesUpdate, removals=properties),
    )
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        made(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id),
    )
    try:
        catalog.commit_table(table, requirements, updates)
    except (CommitFailedException, CommitStateUnknownException, NoSuchTableError):
        return None
    return sharing


def _sharing(table: Table, reach: Reach) -> tuple[int, ...]:
    """The snapshots of which a file lies in the place of another table."""
    home = f"{real_folder(table.metadata.location)}/"
    return tuple(
        s.snapshot_id
        for s in table.metadata.snapshots
        if any(not path.startswith(home) for path in reach.of_snapshots([s], table.io))
    )
