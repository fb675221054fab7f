"""The manifests of one table, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.lake.concurrency import map_concurrently
from sqb.lake.metadata.changed_files import FileComparison, TableLayout, compare_files
from sqb.lake.metadata.file_entries import (
    FileEntry,
    ListedManifest,
    ManifestList,
    read_file_entries,
    read_manifest_list,
)
from sqb.lake.storage.base import Storage

# What manifests are that cannot be read as they should be: Spark is to say what is wrong with them.
UNREADABLE = (FileNotFoundError, ValueError, TypeError, LookupError, EOFError, NotImplementedError, AttributeError)


class ManifestReader:
    """Reads what the snapshots of a table list."""

    def __init__(self, storage: Storage, document: Mapping[str, Any]) -> None:
        self._storage = storage
        snapshots = document.get("snapshots") or ()
        self._lists = {s["snapshot-id"]: s["manifest-list"] for s in snapshots if "manifest-list" in s}
        self._read: dict[int, ManifestList] = {}
        self._entries: dict[str, list[FileEntry]] = {}
        self.layout = describe_layout(document)

    def read_list(self, snapshot_id: int) -> ManifestList:
        """The manifests of a snapshot."""
        if snapshot_id not in self._read:
            self._read[snapshot_id] = read_manifest_list(self._storage.read(self._lists[snapshot_id]))
        return self._read[snapshot_id]

    def read_entries(self, manifest: ListedManifest) -> list[FileEntry]:
        """The files that a manifest lists."""
        if manifest.path not in self._entries:
            self._entries[manifest.path] = read_file_entries(self._storage.read(manifest.path), manifest)
        return self._entries[manifest.path]

    def list_data_files(self, snapshot_id: int) -> list[FileEntry]:
        """The data files of a snapshot."""
        manifests = [m for m in self.read_list(snapshot_id).manifests if not m.has_deletes]
        map_concurrently(self.read_entries, manifests, self._storage.readers)
        return [entry for manifest in manifests for entry in self.read_entries(manifest)]

    def compare(self, old: int, new: int) -> FileComparison:
        """The files that tell what changed between two snapshots."""
        then, now = self.read_list(old), self.read_list(new)
        paths = [{m.path for m in listed.manifests} for listed in (then, now)]
        unshared = {m.path: m for m in (*then.manifests, *now.manifests) if m.path in paths[0] ^ paths[1]}
        map_concurrently(self.read_entries, unshared.values(), self._storage.readers)
        return compare_files(then, now, self.read_entries, self.layout)


def describe_layout(document: Mapping[str, Any]) -> TableLayout:
    """What has to be known of a table to understand the statistics and deletes of its files."""
    only: dict[str, Any] = {"spec-id": 0, "fields": document.get("partition-spec") or ()}
    specs = document.get("partition-specs") or (only,)
    unpartitioned = [s.get("spec-id", 0) for s in specs if all(f["transform"] == "void" for f in s["fields"])]
    kinds: dict[int, set[str]] = {}
    for schema in document.get("schemas") or (document.get("schema") or {},):
        for field in schema.get("fields") or ():
            kinds.setdefault(field["id"], set()).add(str(field["type"]))
    # Bounds in older files are of the type of their time.
    types = {i: "long" if names <= {"int", "long"} else min(names) for i, names in kinds.items()}
    return TableLayout(frozenset(unpartitioned), {i: t for i, t in types.items() if len(kinds[i]) == 1 or t == "long"})
