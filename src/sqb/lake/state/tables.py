"""The state tables on Iceberg: appended to by any number of processes at once, and read as little as possible.

An append writes one small file and one snapshot. The table keeps few old snapshots and few manifests, so that the
thousandth build appends as quickly as the first.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate, TableUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from sqb.errors.lake import Conflict
from sqb.lake.commit.snapshot import (
    add_rows,
    build_model,
    has_delete_files,
    list_live_entries,
    merge_manifests,
    remove_files,
    write_draft,
)
from sqb.lake.metadata.manifests import read_manifests
from sqb.lake.private_api import delete_old_metadata
from sqb.lake.state.newest import END_OF_TIME, EPOCH, decode_rows, get_time, select_newest
from sqb.lake.state.rows import STATE_VERSION, VERSION_PROPERTY, Row, StateTable, refuse_newer_state
from sqb.names import Relation

# How often a process that cleans up looks again before it leaves the rest to the janitor.
_LOOKS = 10
_PATIENCE_SECONDS = 60.0
_READ_ATTEMPTS = 5
_SNAPSHOTS_KEPT = 10
_MANIFESTS_MERGED_AT = 40
_PROPERTIES = {
    VERSION_PROPERTY: str(STATE_VERSION),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(_SNAPSHOTS_KEPT),
    "history.expire.min-snapshots-to-keep": str(_SNAPSHOTS_KEPT),
}


@dataclass(frozen=True, slots=True)
class AppendResult:
    """An append that is visible: the metadata that held the rows before, if any, and the metadata that it made."""

    schema: str
    previous: str | None
    location: str


class Journal:
    """Appends to and reads the state tables of a catalog."""

    def __init__(self, catalog: Catalog, ensure_schema: Callable[[str], None]) -> None:
        self.catalog = catalog
        self._ensure_schema = ensure_schema
        self._locks: dict[Relation, threading.Lock] = {}
        self._guard = threading.Lock()

    def append(self, table: StateTable[Row], rows: Iterable[Row]) -> list[AppendResult]:
        """Append the rows, with one commit per target schema."""
        return [self._append(table, schema, group) for schema, group in table.group_by_schema(rows).items()]

    def read(self, table: StateTable[Row], schema: str) -> list[Row]:
        """All rows of a state table, in the order in which they were appended; none when it does not exist."""

        def all_rows(iceberg_table: Table) -> list[Row]:
            if has_delete_files(iceberg_table.metadata.current_snapshot(), iceberg_table.io):
                return list(decode_rows(iceberg_table.scan().to_arrow(), table))
            return _read_rows(iceberg_table, table, [entry.data_file for entry in list_entries(iceberg_table)])

        return self._read_with_retries(table.get_relation(schema), all_rows)

    def read_newest(
        self, table: StateTable[Row], schema: str, limit: int | None, matches: Callable[[Row], bool]
    ) -> list[Row]:
        """Read the rows that match, newest first; files too old to hold one of them are not opened."""

        def newest_rows(iceberg_table: Table) -> list[Row]:
            if has_delete_files(iceberg_table.metadata.current_snapshot(), iceberg_table.io):
                rows = [row for row in decode_rows(iceberg_table.scan().to_arrow(), table) if matches(row)]
                return sorted(rows, key=lambda row: get_time(row, table), reverse=True)[:limit]
            files = [
                (get_latest_time(entry.data_file, iceberg_table, table), entry.data_file)
                for entry in reversed(list_entries(iceberg_table))
            ]
            return select_newest(files, lambda file: _read_rows(iceberg_table, table, [file]), table, limit, matches)

        return self._read_with_retries(table.get_relation(schema), newest_rows)

    def _read_with_retries(self, relation: Relation, read: Callable[[Table], list[Row]]) -> list[Row]:
        """Read a table; when files vanish while they are read, a janitor has compacted it, and it is read again."""
        for _ in range(_READ_ATTEMPTS - 1):
            iceberg_table = self.load(relation)
            if iceberg_table is None:
                return []
            try:
                return read(iceberg_table)
            except FileNotFoundError:
                time.sleep(0.01)
        iceberg_table = self.load(relation)
        return [] if iceberg_table is None else read(iceberg_table)

    def _append(self, table: StateTable[Row], schema: str, rows: Sequence[Row]) -> AppendResult:
        relation = table.get_relation(schema)
        with self._get_lock(relation):
            iceberg_table = self.load(relation) or self._create(table, schema)
            return self._commit(relation, iceberg_table, _write_file(iceberg_table, table, rows))

    def _commit(self, relation: Relation, iceberg_table: Table, file: DataFile) -> AppendResult:
        """Append a file of rows, and try again on top of what others have appended meanwhile."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        wait = 0.01
        while True:
            metadata, io = iceberg_table.metadata, iceberg_table.io
            try:
                change = add_rows(metadata, io, [file])
                proposed = write_draft(metadata, io, merge_manifests(change, io, _MANIFESTS_MERGED_AT), {})
            except FileNotFoundError:
                # A janitor has compacted the table since it was loaded.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                iceberg_table = self.load(relation) or iceberg_table
                continue
            expired = _find_expired_snapshots(metadata)
            updates: tuple[TableUpdate, ...] = proposed.updates
            if expired:
                updates += (build_model(RemoveSnapshotsUpdate, snapshot_ids=expired),)
            current = metadata.current_snapshot()
            requirements = (
                AssertTableUUID(uuid=metadata.table_uuid),
                build_model(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id if current else None),
            )
            try:
                response = self.catalog.commit_table(iceberg_table, requirements, updates)
            except CommitFailedException as error:
                proposed.undo(io)
                if time.monotonic() > deadline:
                    remove_files([file.file_path], io)
                    raise Conflict(f"{relation} is being appended to by too many builds at once") from error
                time.sleep(wait * random.uniform(0.5, 1.5))
                wait = min(wait * 1.5, 0.5)
                iceberg_table = self.load(relation) or iceberg_table
                continue
            except CommitStateUnknownException:
                current_table = self.load(relation)
                if (
                    current_table is None
                    or current_table.metadata.snapshot_by_id(proposed.snapshot.snapshot_id) is None
                ):
                    raise
                # Others may have appended since, so the cache cannot tell what this metadata holds.
                return AppendResult(relation.schema, current_table.metadata_location, current_table.metadata_location)
            break
        made_now = Table(iceberg_table.name(), response.metadata, response.metadata_location, io, self.catalog)
        self._clean_up(metadata, made_now, expired)
        # The requirements held, so the rows are on top of those in the metadata that this process knew.
        return AppendResult(
            relation.schema, iceberg_table.metadata_location if current else None, response.metadata_location
        )

    def _clean_up(self, before: TableMetadata, now: Table, expired: Collection[int]) -> None:
        """Remove the files that only expired snapshots and forgotten metadata versions used."""
        delete_old_metadata(self.catalog, now.io, before, now.metadata)
        expired_snapshots = [s for s in before.snapshots if s.snapshot_id in expired]
        if not expired_snapshots:
            return
        # A janitor may have taken what has expired, and others may have committed since: neither harms the append.
        with suppress(FileNotFoundError):
            manifests = {m.manifest_path for s in expired_snapshots for m in read_manifests(s, now.io)}
            manifests -= self._list_current_manifests(now)
            remove_files([*manifests, *(s.manifest_list for s in expired_snapshots)], now.io)

    def _list_current_manifests(self, now: Table) -> set[str]:
        """The manifests of the oldest snapshot that a table keeps: newer ones list no older manifest beside them."""
        for _ in range(_LOOKS):
            oldest = min(now.metadata.snapshots, key=lambda s: s.sequence_number or 0)
            with suppress(FileNotFoundError):
                return {m.manifest_path for m in read_manifests(oldest, now.io)}
            # The process that committed since has expired that one too.
            now = self.catalog.load_table(now.name())
        raise FileNotFoundError(now.name())

    def _create(self, table: StateTable[Row], schema: str) -> Table:
        self._ensure_schema(schema)
        identifier = (*schema.split("."), table.name)
        try:
            return self.catalog.create_table(identifier, _build_schema(table), properties=_PROPERTIES)
        except TableAlreadyExistsError:
            return self.catalog.load_table(identifier)

    def load(self, relation: Relation) -> Table | None:
        """A state table as it is now; None when it does not exist."""
        try:
            iceberg_table = self.catalog.load_table((*relation.schema.split("."), relation.name))
        except NoSuchTableError:
            return None
        refuse_newer_state(relation, iceberg_table.metadata.properties)
        return iceberg_table

    def _get_lock(self, relation: Relation) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(relation, threading.Lock())


def _build_schema(table: StateTable[Row]) -> Schema:
    kinds = {table.time: TimestamptzType()}
    columns = enumerate(table.columns, start=1)
    return Schema(*(NestedField(i, name, kinds.get(name, StringType()), required=False) for i, name in columns))


def _write_file(iceberg_table: Table, table: StateTable[Row], rows: Sequence[Row]) -> DataFile:
    """One data file with the rows; of its statistics only the times matter to anyone."""
    arrow = schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True)
    columns = [pa.array([getattr(row, f.name) for row in rows], type=f.type) for f in arrow]
    path = f"{iceberg_table.metadata.location}/data/{uuid.uuid4()}.parquet"
    output = iceberg_table.io.new_output(path)
    with output.create() as stream:
        pq.write_table(pa.Table.from_arrays(columns, schema=arrow), stream, compression="zstd")
    times = [get_time(row, table) for row in rows]
    return build_data_file(iceberg_table, table, path, len(output), len(rows), min(times), max(times))


def build_data_file(
    iceberg_table: Table, table: StateTable[Row], path: str, size: int, rows: int, oldest: datetime, latest: datetime
) -> DataFile:
    """A file of a state table as its manifests list it."""
    time_id = iceberg_table.schema().find_field(table.time).field_id
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds={time_id: _encode_time(oldest)},
        upper_bounds={time_id: _encode_time(latest)},
    )
    file.spec_id = iceberg_table.metadata.default_spec_id
    return file


def _encode_time(moment: datetime) -> bytes:
    return to_bytes(LongType(), (moment - EPOCH) // timedelta(microseconds=1))


def list_entries(iceberg_table: Table) -> list[ManifestEntry]:
    """The table's files, oldest first."""
    entries = list_live_entries(iceberg_table.metadata.current_snapshot(), iceberg_table.io)
    return sorted(entries, key=lambda entry: entry.sequence_number or 0)


def get_latest_time(file: DataFile, iceberg_table: Table, table: StateTable[Row]) -> datetime:
    """The time of a file's latest row, or a later one when it is not recorded."""
    return _decode_bound(file.upper_bounds, iceberg_table, table) or END_OF_TIME


def get_oldest_time(file: DataFile, iceberg_table: Table, table: StateTable[Row]) -> datetime:
    """The time of a file's oldest row, or an earlier one when it is not recorded."""
    return _decode_bound(file.lower_bounds, iceberg_table, table) or EPOCH


def _decode_bound(bounds: Mapping[int, bytes] | None, iceberg_table: Table, table: StateTable[Row]) -> datetime | None:
    bound = (bounds or {}).get(iceberg_table.schema().find_field(table.time).field_id)
    return EPOCH + timedelta(microseconds=int(from_bytes(LongType(), bound))) if bound else None


def _read_rows(iceberg_table: Table, table: StateTable[Row], files: Iterable[DataFile]) -> list[Row]:
    return [row for file in files for row in decode_rows(_read_parquet(file.file_path, iceberg_table.io, table), table)]


def _read_parquet(path: str, io: FileIO, table: StateTable[Row]) -> pa.Table:
    with io.new_input(path).open() as stream:
        return pq.ParquetFile(stream).read(columns=list(table.columns))


def _find_expired_snapshots(metadata: TableMetadata) -> list[int]:
    """The snapshots that the next append may forget; all stay once a user has tagged or branched the table."""
    if set(metadata.refs) - {"main"}:
        return []
    by_age = sorted(metadata.snapshots, key=lambda s: s.sequence_number or 0)
    return [s.snapshot_id for s in by_age[: -_SNAPSHOTS_KEPT + 1]]
