"""One snapshot as data: the manifests it lists, its summary, and the updates that make it the table's current one.

pyiceberg's own producers can't drop delete files and copy the table's metadata at every step; a snapshot is little
enough to be written down here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate

from sqb.errors.lake import LakeError
from sqb.lake.commit.clock import commit_ms
from sqb.lake.metadata.manifests import read_entries, read_manifests

_NO_TOTALS = {
    "total-data-files": "0",
    "total-delete-files": "0",
    "total-records": "0",
    "total-files-size": "0",
    "total-position-deletes": "0",
    "total-equality-deletes": "0",
}
_NEWEST_FORMAT = 2
Model = TypeVar("Model")


def build_model(kind: Callable[..., Model], **values: Any) -> Model:
    """A pyiceberg model by its Python field names, which type checkers only know by their JSON names."""
    return kind(**values)


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot does to the files of a table."""

    operation: Operation
    added: Sequence[DataFile] = ()
    removed: Sequence[ManifestEntry] = ()
    unchanged: Sequence[ManifestFile] = ()
    # Entries that stay, in a manifest of this snapshot.
    existing: Sequence[ManifestEntry] = ()
    # Delete files that go along with the rows they applied to.
    dropped_deletes: Sequence[DataFile] = ()
    replaces_all: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A snapshot whose files are written but that no table lists yet."""

    snapshot: Snapshot
    paths: tuple[str, ...]

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        return (
            AddSnapshotUpdate(snapshot=self.snapshot),
            build_model(SetSnapshotRefUpdate, ref_name="main", type="branch", snapshot_id=self.snapshot.snapshot_id),
        )

    def undo(self, io: FileIO) -> None:
        """Remove the files of a snapshot that was not committed."""
        remove_files(self.paths, io)


def remove_files(paths: Iterable[str], io: FileIO) -> None:
    """Remove files; one that is gone or refuses to go is left to the janitor."""
    for path in paths:
        with suppress(OSError):
            io.delete(path)


def replace_rows(metadata: TableMetadata, io: FileIO, files: Sequence[DataFile]) -> Change:
    """Replace all rows, also those that delete files hide, by the rows of `files`."""
    current = metadata.current_snapshot()
    if current is None:
        return Change(Operation.APPEND, files, replaces_all=True)
    removed: list[ManifestEntry] = []
    deletes: list[DataFile] = []
    for manifest in read_manifests(current, io):
        entries = read_entries(manifest, io)
        if manifest.content == ManifestContent.DATA:
            removed.extend(entries)
        else:
            deletes.extend(e.data_file for e in entries)
    return Change(Operation.OVERWRITE, files, removed, dropped_deletes=deletes, replaces_all=True)


def exchange_rows(
    metadata: TableMetadata, io: FileIO, files: Sequence[DataFile], replaced_files: Collection[str]
) -> Change:
    """Replace the rows of `replaced_files`, given by path, by the rows of `files`."""
    if not replaced_files:
        return add_rows(metadata, io, files)
    current = metadata.current_snapshot()
    removed: list[ManifestEntry] = []
    existing: list[ManifestEntry] = []
    unchanged: list[ManifestFile] = []
    for manifest in read_manifests(current, io):
        entries = read_entries(manifest, io)
        replaced = [e for e in entries if e.data_file.file_path in replaced_files]
        if replaced:
            removed += replaced
            existing += [e for e in entries if e.data_file.file_path not in replaced_files]
        elif entries:
            unchanged.append(manifest)
    if len(removed) != len(replaced_files):
        raise LakeError(
            f"{len(replaced_files) - len(removed)} files that were to be replaced are no longer in the table"
        )
    return Change(Operation.OVERWRITE, files, removed, unchanged, existing)


def add_rows(metadata: TableMetadata, io: FileIO, files: Sequence[DataFile] = ()) -> Change:
    """Add the rows of `files` to those of the table."""
    current = metadata.current_snapshot()
    listed = read_manifests(current, io)
    return Change(
        Operation.APPEND, files, unchanged=[m for m in listed if m.has_added_files() or m.has_existing_files()]
    )


def list_live_entries(snapshot: Snapshot | None, io: FileIO) -> list[ManifestEntry]:
    """What a snapshot says of the data files that it lists."""
    return [
        entry
        for manifest in read_manifests(snapshot, io)
        if manifest.content == ManifestContent.DATA
        for entry in read_entries(manifest, io)
    ]


def list_live_files(snapshot: Snapshot | None, io: FileIO) -> list[DataFile]:
    """The data files that a snapshot lists."""
    return [entry.data_file for entry in list_live_entries(snapshot, io)]


def has_delete_files(snapshot: Snapshot | None, io: FileIO) -> bool:
    """Whether a snapshot hides rows of its data files."""
    return any(m.content == ManifestContent.DELETES for m in read_manifests(snapshot, io))


def merge_manifests(change: Change, io: FileIO, at: int) -> Change:
    """The same change with all kept manifests of an unpartitioned table in one, once there are `at` of them."""
    if len(change.unchanged) < at or any(m.content != ManifestContent.DATA for m in change.unchanged):
        return change
    existing = [e for m in change.unchanged for e in read_entries(m, io)]
    return replace(change, unchanged=(), existing=existing)


def write_draft(metadata: TableMetadata, io: FileIO, change: Change, properties: Mapping[str, str]) -> Draft:
    """Write the manifests of a change on top of `metadata`, whose current schema and layout it takes."""
    if metadata.format_version > _NEWEST_FORMAT:
        raise LakeError(
            f"the table in {metadata.location} has Iceberg format version {metadata.format_version}, which sqb can read"
            " but not yet write",
            hint="drop the table, or give the model another name, and build again",
        )
    writer = _ManifestWriter(metadata, io)
    try:
        manifests = [*writer.write_added(change.added), *writer.write_removed(change.removed)]
        manifests += [*writer.write_existing(change.existing), *change.unchanged]
        listed = writer.write_list(manifests)
    except BaseException:
        remove_files(writer.paths, io)
        raise
    snapshot = build_model(
        Snapshot,
        snapshot_id=writer.snapshot_id,
        parent_snapshot_id=writer.parent_id,
        manifest_list=listed,
        sequence_number=writer.sequence_number,
        summary=_build_summary(metadata, change, properties),
        schema_id=metadata.current_schema_id,
        timestamp_ms=commit_ms(metadata.last_updated_ms),
    )
    return Draft(snapshot, tuple(writer.paths))


class _ManifestWriter:
    """Writes the manifest files of one snapshot and remembers which."""

    def __init__(self, metadata: TableMetadata, io: FileIO) -> None:
        parent = metadata.current_snapshot()
        self.snapshot_id = metadata.new_snapshot_id()
        self.parent_id = parent.snapshot_id if parent else None
        self.sequence_number = metadata.next_sequence_number()
        self.paths: list[str] = []
        self._metadata = metadata
        self._io = io
        self._commit = uuid.uuid4()
        self._numbers = count()

    def write_added(self, files: Sequence[DataFile]) -> Iterator[ManifestFile]:
        entries = [_build_entry(file, ManifestEntryStatus.ADDED, self.snapshot_id) for file in files]
        if entries:
            yield self._write_manifest(self._metadata.spec(), entries)

    def write_removed(self, entries: Sequence[ManifestEntry]) -> Iterator[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            deleted = _build_entry(entry.data_file, ManifestEntryStatus.DELETED, self.snapshot_id, entry)
            by_spec.setdefault(entry.data_file.spec_id, []).append(deleted)
        for spec_id, deleted_entries in by_spec.items():
            yield self._write_manifest(self._metadata.specs()[spec_id], deleted_entries)

    def write_existing(self, entries: Sequence[ManifestEntry]) -> Iterator[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            retained = _build_entry(entry.data_file, ManifestEntryStatus.EXISTING, entry.snapshot_id or 0, entry)
            by_spec.setdefault(entry.data_file.spec_id, []).append(retained)
        for spec_id, retained_entries in by_spec.items():
            yield self._write_manifest(self._metadata.specs()[spec_id], retained_entries)

    def write_list(self, manifests: list[ManifestFile]) -> str:
        path = self._add_path(f"snap-{self.snapshot_id}-0-{self._commit}.avro")
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self._io.new_output(path),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self.parent_id,
            sequence_number=self.sequence_number,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(manifests)
        return path

    def _write_manifest(self, spec: PartitionSpec, entries: Iterable[ManifestEntry]) -> ManifestFile:
        path = self._add_path(f"{self._commit}-m{next(self._numbers)}.avro")
        with write_manifest(
            format_version=self._metadata.format_version,
            spec=spec,
            schema=find_schema_with_sources(spec, self._metadata),
            output_file=self._io.new_output(path),
            snapshot_id=self.snapshot_id,
            avro_compression="deflate",
        ) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _add_path(self, name: str) -> str:
        folder = self._metadata.properties.get("write.metadata.path") or f"{self._metadata.location}/metadata"
        path = f"{folder.rstrip('/')}/{name}"
        self.paths.append(path)
        return path


def _build_entry(
    file: DataFile, status: ManifestEntryStatus, snapshot_id: int, previous: ManifestEntry | None = None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=previous.sequence_number if previous else None,
        file_sequence_number=previous.file_sequence_number if previous else None,
        data_file=file,
    )


def find_schema_with_sources(spec: PartitionSpec, metadata: TableMetadata) -> Schema:
    """A schema that has the columns of a spec: those of an older spec may be gone from today's."""
    sources = {f.source_id for f in spec.fields}
    for schema in (metadata.schema(), *reversed(metadata.schemas)):
        if sources <= set(schema.field_ids):
            return schema
    return metadata.schema()


def _build_summary(metadata: TableMetadata, change: Change, properties: Mapping[str, str]) -> Summary:
    collector = SnapshotSummaryCollector()
    for file in change.added:
        collector.metrics.add_file(file)
    for file in (*(e.data_file for e in change.removed), *change.dropped_deletes):
        collector.metrics.remove_file(file)
    counted = collector.build()
    parent = metadata.current_snapshot()
    before = parent.summary if parent and parent.summary else None
    if change.replaces_all:
        # All that was is gone, so the totals are what came, whatever an earlier writer had counted.
        added = {k: v for k, v in counted.items() if k.startswith("added-")}
        totals = update_snapshot_summaries(Summary(operation=change.operation, **added), _NO_TOTALS)
        counted |= {k: v for k in _NO_TOTALS if (v := totals[k]) is not None}
        return Summary(operation=change.operation, **counted, **properties)
    summary = Summary(operation=change.operation, **counted, **properties)
    return update_snapshot_summaries(summary, before.additional_properties if before else None)
