"""Compaction of a state table: superseded old rows are removed, the rest becomes one file in one snapshot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate, TableUpdate

from sqb.lake.commit.snapshot import build_model, has_delete_files, remove_files, replace_rows, write_draft
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.janitor.retention import find_rows_to_keep
from sqb.lake.private_api import delete_old_metadata
from sqb.lake.state.rows import StateTable
from sqb.lake.state.tables import Journal, build_data_file, get_latest_time, get_oldest_time, list_entries

_ATTEMPTS = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction removed, or would: rows, snapshots, and the files that are no longer reachable."""

    rows: int
    snapshots: int
    paths: tuple[str, ...]
    before: str = ""
    after: str = ""


def compact(
    journal: Journal, table: StateTable[Any], schema: str, cutoff: datetime, dry_run: bool
) -> Compaction | None:
    """Prune and compact one state table; None when there is nothing to gain, or a user edited it by hand."""
    relation = table.get_relation(schema)
    for attempt in range(_ATTEMPTS):
        iceberg_table = journal.load(relation)
        current = iceberg_table.metadata.current_snapshot() if iceberg_table is not None else None
        if iceberg_table is None or current is None or has_delete_files(current, iceberg_table.io):
            return None
        files = [entry.data_file for entry in list_entries(iceberg_table)]
        try:
            retained = _find_retained_rows(iceberg_table, table, files, cutoff)
        except FileNotFoundError:
            continue
        rows = sum(f.record_count for f in files) - sum(map(len, retained))
        old = (
            []
            if set(iceberg_table.metadata.refs) - {"main"}
            else [s.snapshot_id for s in iceberg_table.metadata.snapshots]
        )
        if len(files) <= 1 and not rows and len(old) <= 1:
            return None
        if dry_run:
            unreachable = (
                ReachableFiles().list_snapshot_files(iceberg_table.metadata.snapshots, iceberg_table.io)
                if old
                else set()
            )
            return Compaction(rows, max(0, len(old) - 1), tuple(sorted(unreachable)))
        replaced = _replace_files(iceberg_table, table, files, retained, old)
        if replaced is not None:
            return Compaction(rows, max(0, len(old) - 1), *replaced)
        time.sleep(0.05 * 2**attempt)
    return None


def _find_retained_rows(
    iceberg_table: Table, table: StateTable[Any], files: Sequence[DataFile], cutoff: datetime
) -> list[pa.Array]:
    """For each file the places of its rows that stay; histories are long, so rows are looked at in columns."""
    if all(get_oldest_time(file, iceberg_table, table) >= cutoff for file in files):
        return [pa.array(range(file.record_count), pa.int64()) for file in files]
    # Rows without an identity are the latest of nothing.
    listed = enumerate(files) if table.identity else ()
    latest = [(number, *row) for number, file in listed for row in _find_latest_rows(iceberg_table, table, file)]
    chosen = find_rows_to_keep([key for _, key, _, _ in latest], [moment for _, _, moment, _ in latest], _NEVER)
    newest: dict[int, list[int]] = {}
    for number, _, _, place in (latest[index] for index in chosen):
        newest.setdefault(number, []).append(place)
    limit = (cutoff - _EPOCH) // timedelta(microseconds=1)
    return [
        _find_places(iceberg_table, table, file, newest.get(number, []), limit) for number, file in enumerate(files)
    ]


def _find_latest_rows(
    iceberg_table: Table, table: StateTable[Any], file: DataFile
) -> Iterator[tuple[tuple[str | None, ...], int, int]]:
    """The latest row of each identity in a file, by time and then by order: its identity, its time and its place."""
    columns = [*table.identity, *table.retained_by, *table.retained_by_presence]
    rows = _read_parquet(iceberg_table, file, [*columns, table.time])
    for name in table.retained_by_presence:
        has_value = pc.not_equal(pc.fill_null(rows.column(name), ""), "")
        rows = rows.set_column(rows.column_names.index(name), name, has_value)
    times = _get_micros(rows, table)
    rows = rows.select(columns).append_column("at", times)
    rows = rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    rows = rows.sort_by([("at", "ascending"), ("place", "ascending")])
    last = rows.group_by(columns, use_threads=False).aggregate([("at", "last"), ("place", "last")])
    keys = zip(*(last.column(name).to_pylist() for name in columns), strict=True)
    yield from zip(keys, last.column("at_last").to_pylist(), last.column("place_last").to_pylist(), strict=True)


def _find_places(
    iceberg_table: Table, table: StateTable[Any], file: DataFile, newest: list[int], limit: int
) -> pa.Array:
    """The places of a file's rows that are young enough, and of those that are the latest of their identity."""
    young = pc.greater_equal(_get_micros(_read_parquet(iceberg_table, file, [table.time]), table), limit)
    places = pa.array(range(file.record_count), pa.int64())
    is_retained = pc.or_(young, pc.is_in(places, value_set=pa.array(newest, pa.int64())))
    return places.filter(is_retained)


def _get_micros(rows: pa.Table, table: StateTable[Any]) -> pa.Array:
    return pc.fill_null(rows.column(table.time).cast(pa.int64()), 0).combine_chunks()


def _replace_files(
    iceberg_table: Table, table: StateTable[Any], files: Sequence[DataFile], retained: list[pa.Array], old: list[int]
) -> tuple[tuple[str, ...], str, str] | None:
    """Commit one file in the place of all; what nothing leads to then. None when another process committed first."""
    metadata, io = iceberg_table.metadata, iceberg_table.io
    current = metadata.current_snapshot()
    assert current is not None
    written = [_write_file(iceberg_table, table, files, retained)] if any(map(len, retained)) else []
    drafted = write_draft(metadata, io, replace_rows(metadata, io, written), {})
    updates: tuple[TableUpdate, ...] = drafted.updates
    if old:
        updates += (build_model(RemoveSnapshotsUpdate, snapshot_ids=old),)
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        build_model(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id),
    )
    try:
        response = iceberg_table.catalog.commit_table(iceberg_table, requirements, updates)
    except CommitFailedException:
        drafted.undo(io)
        remove_files([file.file_path for file in written], io)
        return None
    delete_old_metadata(iceberg_table.catalog, io, metadata, response.metadata)
    reach = ReachableFiles()
    now = Table(iceberg_table.name(), response.metadata, response.metadata_location, io, iceberg_table.catalog)
    unreachable = reach.list_snapshot_files(metadata.snapshots, io) - reach.list_table_files(now) if old else set()
    return tuple(sorted(unreachable)), iceberg_table.metadata_location, response.metadata_location


def _write_file(
    iceberg_table: Table, table: StateTable[Any], files: Sequence[DataFile], retained: list[pa.Array]
) -> DataFile:
    """One data file with the rows that stay, file after file, so that no more than one of them is held in memory."""
    arrow = schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True)
    path = f"{iceberg_table.metadata.location}/data/{uuid.uuid4()}.parquet"
    output = iceberg_table.io.new_output(path)
    with output.create() as stream, pq.ParquetWriter(stream, arrow, compression="zstd") as writer:
        for file, places in zip(files, retained, strict=True):
            if len(places):
                rows = _read_parquet(iceberg_table, file, [f.name for f in arrow])
                writer.write_table(rows.take(places).cast(arrow))
    oldest = min(get_oldest_time(file, iceberg_table, table) for file in files)
    latest = max(get_latest_time(file, iceberg_table, table) for file in files)
    return build_data_file(iceberg_table, table, path, len(output), sum(map(len, retained)), oldest, latest)


def _read_parquet(iceberg_table: Table, file: DataFile, columns: list[str]) -> pa.Table:
    with iceberg_table.io.new_input(file.file_path).open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)
