"""The files that a table's metadata leads to: everything else in its folder is nobody's."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sqb.lake.locations import real
from sqb.lake.manifests import entries_of, manifests_of


class Reach:
    """Follows metadata to files; manifests never change, so that each is read once however many snapshots list it."""

    def __init__(self) -> None:
        self._listed: dict[str, frozenset[str]] = {}

    def of_table(self, table: Table, without: Collection[int] = ()) -> set[str]:
        """Every file that a table leads to, its own metadata included; `without` some of its snapshots."""
        metadata = table.metadata
        found = {real(table.metadata_location), *(real(entry.metadata_file) for entry in metadata.metadata_log)}
        found |= self.of_snapshots((s for s in metadata.snapshots if s.snapshot_id not in without), table.io)
        for statistics in (*metadata.statistics, *metadata.partition_statistics):
            if statistics.snapshot_id not in without:
                found.add(real(statistics.statistics_path))
        return found

    def of_snapshots(self, snapshots: Iterable[Snapshot], io: FileIO) -> set[str]:
        """The manifest lists, manifests and data files of snapshots."""
        found: set[str] = set()
        for snapshot in snapshots:
            found.add(real(snapshot.manifest_list))
            for manifest in manifests_of(snapshot, io):
                path = manifest.manifest_path
                if path not in self._listed:
                    entries = entries_of(manifest, io)
                    self._listed[path] = frozenset(real(entry.data_file.file_path) for entry in entries)
                found.add(real(path))
                found |= self._listed[path]
        return found
