"""The files that a table's metadata leads to: everything else in its folder is an orphan."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sqb.lake.metadata.manifests import read_entries, read_manifests
from sqb.lake.storage.locations import normalize_location


class ReachableFiles:
    """Follows metadata to files; manifests never change, so that each is read once however many snapshots list it."""

    def __init__(self) -> None:
        self._data_files: dict[str, frozenset[str]] = {}

    def list_table_files(self, table: Table, without: Collection[int] = ()) -> set[str]:
        """Every file that a table leads to, its own metadata included; `without` some of its snapshots."""
        metadata = table.metadata
        paths = {
            normalize_location(table.metadata_location),
            *(normalize_location(entry.metadata_file) for entry in metadata.metadata_log),
        }
        paths |= self.list_snapshot_files((s for s in metadata.snapshots if s.snapshot_id not in without), table.io)
        for statistics in (*metadata.statistics, *metadata.partition_statistics):
            if statistics.snapshot_id not in without:
                paths.add(normalize_location(statistics.statistics_path))
        return paths

    def list_snapshot_files(self, snapshots: Iterable[Snapshot], io: FileIO) -> set[str]:
        """The manifest lists, manifests and data files of snapshots."""
        paths: set[str] = set()
        for snapshot in snapshots:
            paths.add(normalize_location(snapshot.manifest_list))
            for manifest in read_manifests(snapshot, io):
                path = manifest.manifest_path
                if path not in self._data_files:
                    entries = read_entries(manifest, io)
                    self._data_files[path] = frozenset(
                        normalize_location(entry.data_file.file_path) for entry in entries
                    )
                paths.add(normalize_location(path))
                paths |= self._data_files[path]
        return paths
