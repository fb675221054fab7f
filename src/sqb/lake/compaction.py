"""A state table made small again: old rows that count no more go, and the rest becomes one file in one snapshot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
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
        if len(files) == 1 and not rows and len(old) <= 1:
            return None
        if dry_run:
            gone = Reach().of_snapshots(found.metadata.snapshots, found.io) if old else set()
            return Compacted(rows, max(0, len(old) - 1), tuple(sorted(gone)))
        done = _replaced(found, table, files, kept, old)
        if done is not None:
            return Compacted(rows, max(0, len(old) - 1), *done)
        time.sleep(0.05 * 2**attempt)
    return None


def _kept(found: Table, table: StateTable[Any], files: Sequence[DataFile], cutoff: datetime) -> list[list[int]]:
    """For each file the places of its rows that stay."""
    if all(oldest_of(file, found, table) >= cutoff for file in files):
        return [list(range(file.record_count)) for file in files]
    keys: list[tuple[str, ...]] = []
    times: list[int] = []
    for file in files:
        rows = _parquet(found, file, [*table.identity, table.time])
        keys += zip(*(rows.column(name).to_pylist() for name in table.identity), strict=True)
        times += [moment or 0 for moment in rows.column(table.time).cast(pa.int64()).to_pylist()]
    places = iter(rows_to_keep(keys, times, (cutoff - _EPOCH) // timedelta(microseconds=1)))
    kept: list[list[int]] = []
    place, begin = next(places, None), 0
    for file in files:
        mine = []
        while place is not None and place < begin + file.record_count:
            mine.append(place - begin)
            place = next(places, None)
        kept.append(mine)
        begin += file.record_count
    return kept


def _replaced(
    found: Table, table: StateTable[Any], files: Sequence[DataFile], kept: list[list[int]], old: list[int]
) -> tuple[tuple[str, ...], str, str] | None:
    """Commit one file in the place of all; what nothing leads to then. None when somebody else was quicker."""
    metadata, io = found.metadata, found.io
    current = metadata.current_snapshot()
    assert current is not None
    file = _written(found, table, files, kept)
    drafted = draft(metadata, io, replace_rows(metadata, io, [file]), {})
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
        remove_files([file.file_path], io)
        return None
    found.catalog._delete_old_metadata(io, metadata, response.metadata)
    reach = Reach()
    now = Table(found.name(), response.metadata, response.metadata_location, io, found.catalog)
    gone = reach.of_snapshots(metadata.snapshots, io) - reach.of_table(now) if old else set()
    return tuple(sorted(gone)), found.metadata_location, response.metadata_location


def _written(found: Table, table: StateTable[Any], files: Sequence[DataFile], kept: list[list[int]]) -> DataFile:
    """One data file with the rows that stay, file after file, so that no more than one of them is held in memory."""
    arrow = schema_to_pyarrow(found.schema(), include_field_ids=True)
    path = f"{found.metadata.location}/data/{uuid.uuid4()}.parquet"
    output = found.io.new_output(path)
    with output.create() as stream, pq.ParquetWriter(stream, arrow, compression="zstd") as writer:
        for file, places in zip(files, kept, strict=True):
            if places:
                rows = _parquet(found, file, [f.name for f in arrow])
                writer.write_table(rows.take(pa.array(places, pa.int64())).cast(arrow))
    oldest = min(oldest_of(file, found, table) for file in files)
    latest = max(latest_of(file, found, table) for file in files)
    return file_of(found, table, path, len(output), sum(map(len, kept)), oldest, latest)


def _parquet(found: Table, file: DataFile, columns: list[str]) -> pa.Table:
    with found.io.new_input(file.file_path).open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)
