"""A table that shares the files of another: made in a moment, without Java, whatever its size.

The source's snapshot gets a tag, so that no expiry removes its files; then a metadata file is written that holds only
this snapshot, at a place of its own and under another identity. What is written to the clone later lands in its own
place. The snapshot keeps its id, so that versions which others have recorded mean the same rows in both tables.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from sqb.errors.lake import CommitUnknown, LakeError
from sqb.lake.commit.clock import commit_ms
from sqb.lake.commit.snapshot import build_model
from sqb.lake.commit.writer import OWNED_PROPERTIES
from sqb.lake.metadata.table_state import parse_state
from sqb.lake.port import (
    CLONE_MADE,
    CLONE_OF,
    CLONE_ROOTS,
    CLONE_SNAPSHOT,
    CLONE_TAG,
    Base,
    PublishedCommit,
    build_conflict,
)
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import MODEL, PREFIX

if TYPE_CHECKING:
    from sqb.lake.iceberg import IcebergLake

TAG_PREFIX = "sqb_clone_"
_FOREVER = 2**63 - 1
_ATTEMPTS = 8
# Of the table, not of one snapshot of it; or of places that are the source's own.
_DROPPED = ("statistics", "partition-statistics", "metadata-log", "snapshot-log")
_INHERITED_PROPERTIES = (MODEL, OWNED_PROPERTIES)
_LOCATION_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)


def make_clone(
    lake: IcebergLake,
    source: Relation,
    snapshot_id: int,
    target: Relation,
    summary: Mapping[str, str],
    base: Base | None,
    run_id: str,
) -> tuple[PublishedCommit, str]:
    """Put a clone of a snapshot of `source` in the place of the relation at `base`; returns it and its metadata."""
    catalog = lake.open_for_writing().catalog
    tag = f"{TAG_PREFIX}{run_id}_{uuid.uuid4().hex[:8]}"
    tagged: list[Relation] = []
    folder = f"{lake.warehouse}/{target.schema}/{target.name}"
    path = f"{folder}/metadata/00000-{uuid.uuid4()}.metadata.json"
    try:
        _add_tag(catalog, source, snapshot_id, tag, tagged)
        pointers = lake.list_pointers()
        document = lake.load_document(pointers[source])
        # One that has left its name, as tables do that are adopted, can let go of nothing any more.
        there = {r for r, pointer in pointers.items() if not pointer.is_view}
        roots = [(root, at) for root, at in _list_roots(document, source, snapshot_id) if root in there]
        for root, at in roots[1:]:
            # The files of a clone are the files of what it was made from, and must stay when it goes.
            _add_tag(catalog, root, at, tag, tagged)
        copied = build_clone_document(document, snapshot_id, folder, summary)
        copied["properties"] |= {
            CLONE_OF: str(source),
            CLONE_SNAPSHOT: str(snapshot_id),
            CLONE_TAG: tag,
            CLONE_MADE: str(copied["last-updated-ms"]),
            CLONE_ROOTS: json.dumps([[str(root), at] for root, at in roots]),
            "gc.enabled": "false",
        }
        lake.storage.write(path, json.dumps(copied).encode())
        lake.catalog.swap(target, path, base)
    except CommitUnknown:
        # What was written may be the table's by now.
        raise
    except BaseException:
        with suppress(OSError, LakeError):
            lake.storage.remove(path)
        for relation in tagged:
            with suppress(Exception):
                release_tag(catalog, relation, tag)
        raise
    return PublishedCommit(snapshot_id, parse_state(copied)), path


def build_clone_document(
    document: Mapping[str, Any], snapshot_id: int, location: str, summary: Mapping[str, str]
) -> dict[str, Any]:
    """The metadata of a table that holds one snapshot of another, at its own place and under its own identity."""
    snapshot = next(dict(s) for s in document["snapshots"] if s["snapshot-id"] == snapshot_id)
    counts = {k: v for k, v in (snapshot.get("summary") or {}).items() if not _is_ours(k)}
    snapshot["summary"] = {**counts, **summary}
    snapshot.pop("parent-snapshot-id", None)
    now = commit_ms(snapshot.get("timestamp-ms"))
    properties = {
        k: v
        for k, v in (document.get("properties") or {}).items()
        if k in _INHERITED_PROPERTIES or (not k.startswith(PREFIX) and k not in _LOCATION_PROPERTIES)
    }
    return {
        **{k: v for k, v in document.items() if k not in _DROPPED},
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-updated-ms": now,
        "properties": properties,
        "snapshots": [snapshot],
        "current-snapshot-id": snapshot_id,
        "refs": {"main": {"snapshot-id": snapshot_id, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": snapshot_id, "timestamp-ms": snapshot.get("timestamp-ms", now)}],
        "metadata-log": [],
    }


def release_tag(catalog: Catalog, relation: Relation, tag: str) -> bool:
    """Take a tag from a table; False when it changed at this moment, or when it no longer has the tag."""
    try:
        table = catalog.load_table((*relation.schema.split("."), relation.name))
    except NoSuchTableError:
        return False
    if tag not in table.metadata.refs:
        return False
    try:
        return _commit(catalog, table, (build_model(RemoveSnapshotRefUpdate, ref_name=tag),))
    except CommitStateUnknownException:
        return False


def _add_tag(catalog: Catalog, relation: Relation, snapshot_id: int, tag: str, tagged: list[Relation]) -> None:
    """Tag a snapshot, so that no expiry of snapshots removes it or its files."""
    update = build_model(
        SetSnapshotRefUpdate, ref_name=tag, type="tag", snapshot_id=snapshot_id, max_ref_age_ms=_FOREVER
    )
    for attempt in range(_ATTEMPTS):
        try:
            table = catalog.load_table((*relation.schema.split("."), relation.name))
        except NoSuchTableError as error:
            raise build_conflict(relation, "it was dropped") from error
        if table.metadata.snapshot_by_id(snapshot_id) is None:
            raise build_conflict(relation, f"its snapshot {snapshot_id} no longer exists")
        if _commit(catalog, table, (update,)):
            tagged.append(relation)
            return
        time.sleep(0.02 * 2**attempt)
    raise build_conflict(relation)


def _commit(catalog: Catalog, table: Any, updates: tuple[TableUpdate, ...]) -> bool:
    current = table.metadata.current_snapshot()
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        build_model(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id if current else None),
    )
    try:
        catalog.commit_table(table, requirements, updates)
    except CommitFailedException:
        return False
    return True


def _list_roots(document: Mapping[str, Any], source: Relation, snapshot_id: int) -> list[tuple[Relation, int]]:
    """The tables whose files the clone will share: its source, and what that was cloned from itself."""
    further = json.loads((document.get("properties") or {}).get(CLONE_ROOTS, "[]"))
    return [(source, snapshot_id), *((Relation.parse(name), at) for name, at in further)]


def _is_ours(key: str) -> bool:
    return key.startswith((PREFIX, "sqb-"))
