"""A clone made independent: the files that it shares become its own, and nothing else about it changes.

Files are copied, and the manifests that name them are written anew with the new names. Snapshots keep their ids, so
that every recorded version still means the same rows. One exchange of the metadata file makes it
count; a reader at that moment still reads the shared files, which the tag keeps until the next round.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile, write_manifest, write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sqb.errors.lake import CommitUnknown
from sqb.lake.commit.clock import commit_ms
from sqb.lake.commit.snapshot import find_schema_with_sources, remove_files
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.metadata.manifests import read_entries, read_manifests
from sqb.lake.port import CLONE_MADE, CLONE_OF, CLONE_ROOTS, CLONE_SNAPSHOT, CLONE_TAG, Pointer
from sqb.lake.private_api import copy_manifest
from sqb.lake.storage.base import Storage
from sqb.lake.storage.locations import normalize_folder, normalize_location
from sqb.names import Relation

# Properties that a table has as long as it is a clone.
CLONE_PROPERTIES = (CLONE_OF, CLONE_SNAPSHOT, CLONE_TAG, CLONE_ROOTS, CLONE_MADE, "gc.enabled")
_NEWEST_FORMAT = 2
_PATH, _LENGTH, _FILE_PATH = 0, 1, 1


@dataclass(frozen=True, slots=True)
class Separation:
    """The number and size of the copied files, or the `obstacle` when a clone cannot be made independent."""

    files: int = 0
    bytes: int = 0
    obstacle: str = ""


def separate(
    lake: IcebergLake, relation: Relation, table: Table, reachable: ReachableFiles, dry_run: bool
) -> Separation:
    """Give a clone files of its own in the place of those that it shares."""
    snapshots = list(table.metadata.snapshots)
    if not lake.catalog.can_replace_metadata:
        return Separation(obstacle="its catalog cannot exchange a table's metadata, so it goes on sharing them")
    if table.metadata.format_version > _NEWEST_FORMAT:
        return Separation(obstacle=f"it has format version {table.metadata.format_version}")
    if any(m.content == ManifestContent.DELETES for s in snapshots for m in read_manifests(s, table.io)):
        return Separation(obstacle="something else wrote delete files to it, which name the shared files")
    home = f"{normalize_folder(table.metadata.location)}/"
    shared = sorted(p for p in reachable.list_snapshot_files(snapshots, table.io) if not p.startswith(home))
    data = [p for p in shared if not p.endswith(".avro")]
    size = sum(lake.storage.stat(path).size for path in data)
    if dry_run:
        return Separation(len(data), size)
    writer = _CloneWriter(lake.storage, table, home, data)
    try:
        after = writer.rewrite(lake.load_document(Pointer(relation, table.metadata_location)))
        is_replaced = lake.replace_metadata(relation, table.metadata_location, after)
    except CommitUnknown:
        # What was written may be the table's by now.
        raise
    except BaseException:
        writer.undo()
        raise
    if not is_replaced:
        writer.undo()
        return Separation(obstacle="it changed meanwhile; the next round tries again")
    return Separation(len(data), size)


class _CloneWriter:
    """Copies files and writes manifests that name the copies."""

    def __init__(self, storage: Storage, table: Table, home: str, data: list[str]) -> None:
        self.storage, self.table, self.home = storage, table, home
        self._mark = uuid.uuid4().hex[:8]
        self._copies = {path: f"{self._location}/data/own_{self._mark}/{name}" for path, name in _assign_names(data)}
        self._manifests: dict[str, ManifestFile] = {}
        self._written: list[str] = []

    @property
    def _location(self) -> str:
        return str(self.table.metadata.location).rstrip("/")

    @property
    def _io(self) -> FileIO:
        return self.table.io

    def rewrite(self, document: Mapping[str, Any]) -> str:
        """Copy the shared files, write metadata that leads to the copies, and return its location."""
        for path, copied in self._copies.items():
            self._written.append(copied)
            self.storage.copy(path, copied)
        lists = {s.snapshot_id: self._write_list(s) for s in self.table.metadata.snapshots}
        now = commit_ms(document["last-updated-ms"])
        snapshots = [{**s, "manifest-list": lists[s["snapshot-id"]]} for s in document["snapshots"]]
        log = {"metadata-file": self.table.metadata_location, "timestamp-ms": document["last-updated-ms"]}
        properties = {k: v for k, v in document["properties"].items() if k not in CLONE_PROPERTIES}
        after = {
            **{k: v for k, v in document.items() if k not in ("statistics", "partition-statistics")},
            "snapshots": snapshots,
            "properties": properties,
            "last-updated-ms": now,
            "metadata-log": [*(document.get("metadata-log") or ()), log],
        }
        path = self._add_path(f"{len(after['metadata-log']):05d}-{uuid.uuid4()}.metadata.json")
        self.storage.write(path, json.dumps(after).encode())
        return path

    def undo(self) -> None:
        """Remove everything that was written."""
        remove_files(self._written, self._io)

    def _write_list(self, snapshot: Snapshot) -> str:
        """The manifest list of a snapshot, written anew where it or what it lists is shared."""
        manifests = read_manifests(snapshot, self._io)
        rewritten = [self._get_manifest(m) for m in manifests]
        if rewritten == manifests and self._is_own(snapshot.manifest_list):
            return str(snapshot.manifest_list)
        path = self._add_path(f"snap-{snapshot.snapshot_id}-1-{uuid.uuid4()}.avro")
        with write_manifest_list(
            format_version=self.table.metadata.format_version,
            output_file=self._io.new_output(path),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(rewritten)
        return path

    def _get_manifest(self, manifest: ManifestFile) -> ManifestFile:
        rewritten = self._manifests.get(manifest.manifest_path)
        if rewritten is None:
            entries = read_entries(manifest, self._io, discard_deleted=False)
            shares = any(normalize_location(e.data_file.file_path) in self._copies for e in entries)
            is_own = self._is_own(manifest.manifest_path) and not shares
            rewritten = self._manifests[manifest.manifest_path] = (
                manifest if is_own else self._rewrite_manifest(manifest, entries)
            )
        return rewritten

    def _rewrite_manifest(self, manifest: ManifestFile, entries: list[ManifestEntry]) -> ManifestFile:
        """The same manifest with the copies in the place of shared files."""
        metadata = self.table.metadata
        spec = metadata.specs()[manifest.partition_spec_id]
        output = self._io.new_output(self._add_path(f"{uuid.uuid4()}-m0.avro"))
        with write_manifest(
            format_version=metadata.format_version,
            spec=spec,
            schema=find_schema_with_sources(spec, metadata),
            output_file=output,
            snapshot_id=manifest.added_snapshot_id or 0,
            avro_compression="deflate",
        ) as writer:
            for entry in entries:
                file = entry.data_file
                file[_FILE_PATH] = self._copies.get(normalize_location(file.file_path), file.file_path)
                writer.add_entry(entry)
        # What it says of its entries is as it was, but for its own place.
        renamed = copy_manifest(manifest)
        renamed[_PATH], renamed[_LENGTH] = output.location, len(output)
        return renamed

    def _is_own(self, path: str) -> bool:
        return normalize_location(path).startswith(self.home)

    def _add_path(self, name: str) -> str:
        path = f"{self._location}/metadata/{name}"
        self._written.append(path)
        return path


def _assign_names(paths: list[str]) -> Iterator[tuple[str, str]]:
    """A name of its own for each file, which is the file's name where no other has it."""
    seen: set[str] = set()
    for number, path in enumerate(paths):
        name = os.path.basename(path)
        yield path, name if name not in seen else f"{number}-{name}"
        seen.add(name)
