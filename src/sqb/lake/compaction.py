"""A state table made small again: old rows that count no more go, and the rest becomes one file in one snapshot."""

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

from sqb.lake.garbage import rows_to_keep
from sqb.lake.journal import Journal, entries_of, file_of, latest_of, oldest_of
from sqb.lake.reach import Reach
from sqb.lake.snapshots import draft, has_delete_files, made, remove_files, replace_rows
from sqb.lake.state import StateTable

_ATTEMPTS = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction took away, or would: rows, snapshots, and the files that nothing leads to any more."""

    rows: int
    snapshots: int
    paths: tuple[str, ...]
    before: str = ""
    after: str = ""


def compact(journal: Journal, table: StateTable[Any], schema: str, cutoff: datetime, dry_run: bool) -> Compacted | None:
    """Prune and compact one state table; None when there is nothing to gain, or somebody edited it by hand."""
    relation = table.relation(schema)
    for attempt in range(_ATTEMPTS):
        found = journal.load(relation)
        current = found.metadata.current_snapshot() if found is not None else None
        if found is None or current is None or has_delete_files(current, found.io):
            return None
        files = [entry.data_file for entry in entries_of(found)]
        try:
            kept = _kept(found, table, files, cutoff)
        except FileNotFoundError:
            continue
        rows = sum(f.record_count for f in files) - sum(map(len, kept))
        old = [] if set(found.metadata.refs) - {"main"} else [s.snapshot_id for s in found.metadata.snapshots]
        if len(files) <= 1 and not rows and len(old) <= 1:
            return None
        if dry_run:
            gone = Reach().of_snapshots(found.metadata.snapshots, found.io) if old else set()
            return Compacted(rows, max(0, len(old) - 1), tuple(sorted(gone)))
        done = _replaced(found, table, files, kept, old)
        if done is not None:
            return Compacted(rows, max(0, len(old) - 1), *done)
        time.sleep(0.05 * 2**attempt)
    return None


def _kept(found: Table, table: StateTable[Any], files: Sequence[DataFile], cutoff: datetime) -> list[pa.Array]:
    """For each file the places of its rows that stay; histories are long, so rows are looked at in columns."""
    if all(oldest_of(file, found, table) >= cutoff for file in files):
        return [pa.array(range(file.record_count), pa.int64()) for file in files]
    # Rows without an identity are the latest of nothing.
    listed = enumerate(files) if table.identity else ()
    latest = [(number, *row) for number, file in listed for row in _latest_in(found, table, file)]
    chosen = rows_to_keep([key for _, key, _, _ in latest], [moment for _, _, moment, _ in latest], _NEVER)
    newest: dict[int, list[int]] = {}
    for number, _, _, place in (latest[index] for index in chosen):
        newest.setdefault(number, []).append(place)
    limit = (cutoff - _EPOCH) // timedelta(microseconds=1)
    return [_places(found, table, file, newest.get(number, []), limit) for number, file in enumerate(files)]


def _latest_in(
    found: Table, table: StateTable[Any], file: DataFile
) -> Iterator[tuple[tuple[str | None, ...], int, int]]:
    """The latest row of each identity in a file, by time and then by order: its identity, its time and its place."""
    columns = [*table.identity, *table.kept_by, *table.kept_with]
    rows = _parquet(found, file, [*columns, table.time])
    for name in table.kept_with:
        there = pc.not_equal(pc.fill_null(rows.column(name), ""), "")
        rows = rows.set_column(rows.column_names.index(name), name, there)
    times = _micros(rows, table)
    rows = rows.select(columns).append_column("at", times)
    rows = rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    rows = rows.sort_by([("at", "ascending"), ("place", "ascending")])
    last = rows.group_by(columns, use_threads=False).aggregate([("at", "last"), ("place", "last")])
    keys = zip(*(last.column(name).to_pylist() for name in columns), strict=True)
    yield from zip(keys, last.column("at_last").to_pylist(), last.column("place_last").to_pylist(), strict=True)


def _places(found: Table, table: StateTable[Any], file: DataFile, newest: list[int], limit: int) -> pa.Array:
    """The places of a file's rows that are young enough, and of those that are the latest of their identity."""
    young = pc.greater_equal(_micros(_parquet(found, file, [table.time]), table), limit)
    places = pa.array(range(file.record_count), pa.int64())
    wanted = pc.or_(young, pc.is_in(places, value_set=pa.array(newest, pa.int64())))
    return places.filter(wanted)


def _micros(rows: pa.Table, table: StateTable[Any]) -> pa.Array:
    return pc.fill_null(rows.column(table.time).cast(pa.int64()), 0).combine_chunks()


def _replaced(
    found: Table, table: StateTable[Any], files: Sequence[DataFile], kept: list[pa.Array], old: list[int]
) -> tuple[tuple[str, ...], str, str] | None:
    """Commit one file in the place of all; what nothing leads to then. None when somebody else was quicker."""
    metadata, io = found.metadata, found.io
    current = metadata.current_snapshot()
    assert current is not None
    written = [_written(found, table, files, kept)] if any(map(len, kept)) else []
    drafted = draft(metadata, io, replace_rows(metadata, io, written), {})
    updates: tuple[TableUpdate, ...] = drafted.updates
    if old:
        updates += (made(RemoveSnapshotsUpdate, snapshot_ids=old),)
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        made(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id),
    )
    try:
        response = found.catalog.commit_table(found, requirements, updates)
    except CommitFailedException:
        drafted.undo(io)
        remove_files([file.file_path for file in written], io)
        return None
    found.catalog._delete_old_metadata(io, metadata, response.metadata)
    reach = Reach()
    now = Table(found.name(), response.metadata, response.metadata_location, io, found.catalog)
    gone = reach.of_snapshots(metadata.snapshots, io) - reach.of_table(now) if old else set()
    return tuple(sorted(gone)), found.metadata_location, response.metadata_location


def _written(found: Table, table: StateTable[Any], files: Sequence[DataFile], kept: list[pa.Array]) -> DataFile:
    """One data file with the rows that stay, file after file, so that no more than one of them is held in memory."""
    arrow = schema_to_pyarrow(found.schema(), include_field_ids=True)
    path = f"{found.metadata.location}/data/{uuid.uuid4()}.parquet"
    output = found.io.new_output(path)
    with output.create() as stream, pq.ParquetWriter(stream, arrow, compression="zstd") as writer:
        for file, places in zip(files, kept, strict=True):
            if len(places):
                rows = _parquet(found, file, [f.name for f in arrow])
                writer.write_table(rows.take(places).cast(arrow))
    oldest = min(oldest_of(file, found, table) for file in files)
    latest = max(latest_of(file, found, table) for file in files)
    return file_of(found, table, path, len(output), sum(map(len, kept)), oldest, latest)


def _parquet(found: Table, file: DataFile, columns: list[str]) -> pa.Table:
    with found.io.new_input(file.file_path).open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)
