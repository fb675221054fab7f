"""A clone made independent: the files that it shares become its own, and nothing else about it changes.

Files are copied, and the manifests that name them are written anew with the new names. Snapshots keep their ids, so
that every version that somebody has recorded still means the same rows. One exchange of the metadata file makes it
count; whoever reads at that moment reads the shared files on, which the tag keeps until the next round.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile, write_manifest, write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sqb.errors import CommitUnknown
from sqb.lake.clock import commit_ms
from sqb.lake.iceberg import IcebergLake
from sqb.lake.locations import real, real_folder
from sqb.lake.manifests import entries_of, manifests_of
from sqb.lake.port import CLONE_MADE, CLONE_OF, CLONE_ROOTS, CLONE_SNAPSHOT, CLONE_TAG, Pointer
from sqb.lake.reach import Reach
from sqb.lake.snapshots import remove_files, schema_with_sources
from sqb.lake.storage import Storage
from sqb.names import Relation

# What is said of a clone as long as it is one.
SAID = (CLONE_OF, CLONE_SNAPSHOT, CLONE_TAG, CLONE_ROOTS, CLONE_MADE, "gc.enabled")
_NEWEST_FORMAT = 2
_PATH, _LENGTH, _FILE_PATH = 0, 1, 1


@dataclass(frozen=True, slots=True)
class Separated:
    """What it took: files that were copied, and their size; `why_not` when it could not be done."""

    files: int = 0
    bytes: int = 0
    why_not: str = ""


def separate(lake: IcebergLake, relation: Relation, table: Table, reach: Reach, dry_run: bool) -> Separated:
    """Give a clone files of its own in the place of those that it shares."""
    snapshots = list(table.metadata.snapshots)
    if not lake.register.exchanges:
        return Separated(why_not="its catalog cannot exchange a table's metadata, so it goes on sharing them")
    if table.metadata.format_version > _NEWEST_FORMAT:
        return Separated(why_not=f"it has format version {table.metadata.format_version}")
    if any(m.content == ManifestContent.DELETES for s in snapshots for m in manifests_of(s, table.io)):
        return Separated(why_not="something else wrote delete files to it, which name the shared files")
    home = f"{real_folder(table.metadata.location)}/"
    shared = sorted(p for p in reach.of_snapshots(snapshots, table.io) if not p.startswith(home))
    data = [p for p in shared if not p.endswith(".avro")]
    size = sum(lake.storage.stat(path).size for path in data)
    if dry_run:
        return Separated(len(data), size)
    pen = _Pen(lake.storage, table, home, data)
    try:
        after = pen.rewritten(lake.document(Pointer(relation, table.metadata_location)))
        done = lake.exchange(relation, table.metadata_location, after)
    except CommitUnknown:
        # What was written may be the table's by now.
        raise
    except BaseException:
        pen.undo()
        raise
    if not done:
        pen.undo()
        return Separated(why_not="it changed in this moment; the next round tries again")
    return Separated(len(data), size)


class _Pen:
    """Copies files and writes manifests that name the copies."""

    def __init__(self, storage: Storage, table: Table, home: str, data: list[str]) -> None:
        self.storage, self.table, self.home = storage, table, home
        self._mark = uuid.uuid4().hex[:8]
        self._copies = {path: f"{self._location}/data/own_{self._mark}/{name}" for path, name in _named(data)}
        self._manifests: dict[str, ManifestFile] = {}
        self._written: list[str] = []

    @property
    def _location(self) -> str:
        return str(self.table.metadata.location).rstrip("/")

    @property
    def _io(self) -> FileIO:
        return self.table.io

    def rewritten(self, document: Mapping[str, Any]) -> str:
        """Copy everything and write the metadata that leads to the copies; where that is."""
        for path, copied in self._copies.items():
            self._written.append(copied)
            self.storage.copy(path, copied)
        lists = {s.snapshot_id: self._list(s) for s in self.table.metadata.snapshots}
        now = commit_ms(document["last-updated-ms"])
        snapshots = [{**s, "manifest-list": lists[s["snapshot-id"]]} for s in document["snapshots"]]
        log = {"metadata-file": self.table.metadata_location, "timestamp-ms": document["last-updated-ms"]}
        properties = {k: v for k, v in document["properties"].items() if k not in SAID}
        after = {
            **{k: v for k, v in document.items() if k not in ("statistics", "partition-statistics")},
            "snapshots": snapshots,
            "properties": properties,
            "last-updated-ms": now,
            "metadata-log": [*(document.get("metadata-log") or ()), log],
        }
        path = self._path(f"{len(after['metadata-log']):05d}-{uuid.uuid4()}.metadata.json")
        self.storage.write(path, json.dumps(after).encode())
        return path

    def undo(self) -> None:
        """Remove everything that was written."""
        remove_files(self._written, self._io)

    def _list(self, snapshot: Snapshot) -> str:
        """The manifest list of a snapshot, written anew where it or what it lists is shared."""
        manifests = manifests_of(snapshot, self._io)
        own = [self._manifest(m) for m in manifests]
        if own == manifests and self._is_own(snapshot.manifest_list):
            return str(snapshot.manifest_list)
        path = self._path(f"snap-{snapshot.snapshot_id}-1-{uuid.uuid4()}.avro")
        with write_manifest_list(
            format_version=self.table.metadata.format_version,
            output_file=self._io.new_output(path),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(own)
        return path

    def _manifest(self, manifest: ManifestFile) -> ManifestFile:
        known = self._manifests.get(manifest.manifest_path)
        if known is None:
            entries = entries_of(manifest, self._io, discard_deleted=False)
            shares = any(real(e.data_file.file_path) in self._copies for e in entries)
            own = self._is_own(manifest.manifest_path) and not shares
            known = self._manifests[manifest.manifest_path] = manifest if own else self._renamed(manifest, entries)
        return known

    def _renamed(self, manifest: ManifestFile, entries: list[ManifestEntry]) -> ManifestFile:
        """The same manifest with the copies in the place of shared files."""
        metadata = self.table.metadata
        spec = metadata.specs()[manifest.partition_spec_id]
        output = self._io.new_output(self._path(f"{uuid.uuid4()}-m0.avro"))
        with write_manifest(
            format_version=metadata.format_version,
            spec=spec,
            schema=schema_with_sources(spec, metadata),
            output_file=output,
            snapshot_id=manifest.added_snapshot_id or 0,
            avro_compression="deflate",
        ) as writer:
            for entry in entries:
                file = entry.data_file
                file[_FILE_PATH] = self._copies.get(real(file.file_path), file.file_path)
                writer.add_entry(entry)
        # What it says of its entries is as it was, but for its own place.
        renamed = copy(manifest)
        renamed._data = list(manifest._data)
        renamed[_PATH], renamed[_LENGTH] = output.location, len(output)
        return renamed

    def _is_own(self, path: str) -> bool:
        return real(path).startswith(self.home)

    def _path(self, name: str) -> str:
        path = f"{self._location}/metadata/{name}"
        self._written.append(path)
        return path


def _named(paths: list[str]) -> Iterator[tuple[str, str]]:
    """A name of its own for each file, which is the file's name where no other has it."""
    seen: set[str] = set()
    for number, path in enumerate(paths):
        name = os.path.basename(path)
        yield path, name if name not in seen else f"{number}-{name}"
        seen.add(name)
