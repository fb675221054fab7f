"""An invisible table that lists a few files of another, so that Spark reads just these, with just their deletes.

Its snapshots have manifests of their own for data files, and the delete manifests of the table that they are of: so it
is Iceberg that decides which deletes hide which rows, as it does for the table itself. It has the name of a stage, and
no rows of its own: a janitor takes away what a killed build leaves of it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqb.errors.lake import LakeError
from sqb.lake.catalog.base import LakeCatalog
from sqb.lake.commit.clock import commit_ms
from sqb.lake.metadata.file_entries import (
    FileEntry,
    has_written_row_ids,
    write_manifest_list,
    write_manifests,
)
from sqb.lake.metadata.manifest_reader import UNREADABLE, ManifestReader
from sqb.lake.port import STAGE_SCHEMA, ChangedFiles, FilePart
from sqb.lake.storage.base import Storage
from sqb.names import Relation

# What a reader needs of a table's properties; the others are for writers.
_READ_PROPERTIES = ("read.", "schema.name-mapping.")
_ENCRYPTED = "encryption.key-id"
# Of the table, not of its files.
_DROPPED = ("statistics", "partition-statistics", "metadata-log", "snapshot-log")
# With more of them, one comparison of the first and the last snapshot reads less.
_MOST_SEGMENTS = 8
# Metadata columns of Iceberg, which columns of these names would hide.
_METADATA_COLUMNS = frozenset({"_deleted", "_row_id", "_last_updated_sequence_number"})


def stage_changed_files(
    document: Mapping[str, Any],
    old: int,
    new: int,
    columns: Collection[str],
    target: Relation,
    storage: Storage,
    catalog: LakeCatalog,
) -> ChangedFiles | None:
    """Make `target` an invisible table of the files that tell what changed in some columns of a table."""
    segments = _list_segments(document, old, new)
    if not _can_tell_by_files(document, segments, columns):
        return None
    scratch = _Scratch(storage, document, build_scratch_folder(storage, target))
    try:
        for segment in segments:
            scratch.add_segment(*segment)
        location = scratch.write_metadata() if scratch.parts else None
    except UNREADABLE:
        scratch.remove()
        return None
    except BaseException:
        with suppress(OSError, LakeError):
            scratch.remove()
        raise
    if location is not None:
        # Whatever comes of it: what the catalog does not name any more is found by the name of its folder.
        catalog.swap(target, location, None)
    return ChangedFiles(target, tuple(scratch.parts))


def build_scratch_relation(relation: Relation, run_id: str) -> Relation:
    """A new name for an invisible table of files of another."""
    return Relation(STAGE_SCHEMA, f"{relation.schema}__{relation.name}__files_{uuid.uuid4().hex[:8]}__{run_id}")


def build_scratch_folder(storage: Storage, target: Relation) -> str:
    """Where an invisible table has its files."""
    return f"{storage.root}/{STAGE_SCHEMA}/{target.name}"


def _list_segments(document: Mapping[str, Any], old: int, new: int) -> list[tuple[int, int]]:
    """The stretches of a table's history in which rows changed: compactions lie between them."""
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    steps: list[tuple[int, int, bool]] = []
    at = new
    while at != old:
        parent = snapshots.get(at, {}).get("parent-snapshot-id")
        if parent not in snapshots or len(steps) > len(snapshots):
            return [(old, new)]
        compacted = (snapshots[at].get("summary") or {}).get("operation") == "replace"
        steps.append((parent, at, compacted))
        at = parent
    segments: list[tuple[int, int]] = []
    joined = False
    for start, end, compacted in reversed(steps):
        if compacted:
            joined = False
        elif joined:
            segments[-1] = (segments[-1][0], end)
        else:
            segments.append((start, end))
            joined = True
    return segments if len(segments) <= _MOST_SEGMENTS else [(old, new)]


def _can_tell_by_files(
    document: Mapping[str, Any], segments: Sequence[tuple[int, int]], columns: Collection[str]
) -> bool:
    """Whether rows of a file that both snapshots have are the same in both, as far as these columns go."""
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    ends = {i for segment in segments for i in segment}
    if not ends <= snapshots.keys() or any("manifest-list" not in snapshots[i] for i in ends):
        return False
    if _ENCRYPTED in (document.get("properties") or {}) or any("key-id" in snapshots[i] for i in ends):
        return False
    current = document.get("current-schema-id", 0)
    schemas = {s.get("schema-id", 0): s for s in document.get("schemas") or (document.get("schema") or {},)}
    used = [schemas.get(i) for i in {snapshots[i].get("schema-id", current) for i in ends}]
    fields = [{f["name"].lower(): f for f in schema["fields"]} for schema in used if schema is not None]
    if len(fields) < len(used) or any(_METADATA_COLUMNS & names.keys() for names in fields):
        return False
    return all(_has_same_values([names.get(c.lower()) for names in fields]) for c in columns)


def _has_same_values(versions: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether a column of several schemas reads the same from every file."""
    kinds = [(f["id"], f["type"], f.get("initial-default")) if f is not None else None for f in versions]
    return None not in kinds and all(kind == kinds[0] for kind in kinds)


class _Scratch:
    """An invisible table while it is being written."""

    def __init__(self, storage: Storage, document: Mapping[str, Any], location: str) -> None:
        self._storage, self._document, self._location = storage, document, location
        self._sources = {s["snapshot-id"]: s for s in document["snapshots"]}
        self._reader = ManifestReader(storage, document)
        self._snapshots: list[dict[str, Any]] = []
        self.parts: list[FilePart] = []

    def add_segment(self, old: int, new: int) -> None:
        """Add the files that tell what changed between two snapshots."""
        compared = self._reader.compare(old, new)
        self._add_part(new, compared.added, 1, False)
        self._add_part(old, compared.removed, -1, False)
        # A row that both have and that only one hides: what is hidden now is gone, and what was hidden has come back.
        self._add_part(new, compared.hidden_now, -1, True)
        self._add_part(old, compared.hidden_then, 1, True)

    def write_metadata(self) -> str:
        """Write the metadata of the table, and return where it is."""
        path = f"{self._location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        self._storage.write(path, json.dumps(self._build_document()).encode())
        return path

    def remove(self) -> None:
        """Remove everything that was written."""
        self._storage.remove_folder(self._location)

    def _add_part(self, source: int, entries: Sequence[FileEntry], sign: int, is_hidden: bool) -> None:
        if not entries:
            return
        listed = self._reader.read_list(source)
        deletes = [manifest for manifest in listed.manifests if manifest.has_deletes]
        added = write_manifests(entries, self._write_manifest)
        content = write_manifest_list(listed, added, deletes)
        snapshot_id = uuid.uuid4().int >> 65
        path = f"{self._location}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
        self._storage.write(path, content)
        snapshot = {k: v for k, v in self._sources[source].items() if k != "parent-snapshot-id"}
        snapshot |= {"snapshot-id": snapshot_id, "manifest-list": path, "summary": {"operation": "append"}}
        self._snapshots.append(snapshot)
        rows, has_row_ids = sum(entry.records for entry in entries), all(map(has_written_row_ids, entries))
        self.parts.append(FilePart(snapshot_id, sign, is_hidden, rows, has_row_ids))

    def _write_manifest(self, content: bytes) -> str:
        path = f"{self._location}/metadata/{uuid.uuid4()}-m0.avro"
        self._storage.write(path, content)
        return path

    def _build_document(self) -> dict[str, Any]:
        current = self._snapshots[0]
        now = commit_ms(max(s.get("timestamp-ms", 0) for s in self._snapshots))
        properties = self._document.get("properties") or {}
        return {
            **{k: v for k, v in self._document.items() if k not in _DROPPED},
            "table-uuid": str(uuid.uuid4()),
            "location": self._location,
            "last-updated-ms": now,
            # Nothing may remove files with it: they belong to another table.
            "properties": {k: v for k, v in properties.items() if k.startswith(_READ_PROPERTIES)}
            | {"gc.enabled": "false"},
            "snapshots": self._snapshots,
            "current-snapshot-id": current["snapshot-id"],
            "refs": {"main": {"snapshot-id": current["snapshot-id"], "type": "branch"}},
            "snapshot-log": [{"snapshot-id": current["snapshot-id"], "timestamp-ms": current.get("timestamp-ms", now)}],
            "metadata-log": [],
        }
