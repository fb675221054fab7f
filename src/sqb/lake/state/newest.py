"""The newest rows of a state table, read with pyarrow alone: importing pyiceberg takes longer than reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sqb.lake.metadata.plain_avro import read_plain_records
from sqb.lake.state.rows import Row, StateTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_DELETED = 2

File = TypeVar("File")


def read_newest(
    document: Mapping[str, Any],
    read_file: Callable[[str], bytes],
    table: StateTable[Row],
    limit: int | None,
    matches: Callable[[Row], bool],
) -> list[Row] | None:
    """Read the rows that match, newest first; None where delete files hide some of them."""
    files = _list_files(document, read_file, table)

    def read_rows(path: str) -> Iterator[Row]:
        file = pq.ParquetFile(pa.BufferReader(read_file(path)))
        return decode_rows(file.read(columns=list(table.columns)), table)

    return select_newest(files, read_rows, table, limit, matches) if files is not None else None


def select_newest(
    files: Sequence[tuple[datetime, File]],
    read_rows: Callable[[File], Iterable[Row]],
    table: StateTable[Row],
    limit: int | None,
    matches: Callable[[Row], bool],
) -> list[Row]:
    """The rows that match, newest first; files come with the times of their latest rows, so that some stay closed."""
    rows: list[Row] = []
    for latest, file in sorted(files, key=lambda pair: pair[0], reverse=True):
        if limit is not None and len(rows) >= limit and latest < get_time(rows[limit - 1], table):
            break
        rows.extend(reversed([row for row in read_rows(file) if matches(row)]))
        rows.sort(key=lambda row: get_time(row, table), reverse=True)
    return rows[:limit]


def get_time(row: Any, table: StateTable[Row]) -> datetime:
    """The moment that a row is of."""
    moment: datetime = getattr(row, table.time)
    return moment


def decode_rows(arrow: pa.Table, table: StateTable[Row]) -> Iterator[Row]:
    """Rows as values."""
    columns = []
    for name in table.columns:
        column = arrow.column(name)
        if name == table.time:
            columns.append([EPOCH + timedelta(microseconds=n or 0) for n in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append(column.to_pylist())
    kind: Callable[..., Row] = table.row
    return (kind(*values) for values in zip(*columns, strict=True))


def _list_files(
    document: Mapping[str, Any], read_file: Callable[[str], bytes], table: StateTable[Row]
) -> list[tuple[datetime, str]] | None:
    """The table's files with the times of their latest rows, the newest file first; None with delete files."""
    current = document.get("current-snapshot-id")
    snapshot = next((s for s in document.get("snapshots") or () if s["snapshot-id"] == current), None)
    if snapshot is None:
        return []
    time_id = _find_time_id(document, table)
    entries: list[tuple[int, datetime, str]] = []
    for manifest in read_plain_records(read_file(snapshot["manifest-list"])):
        if manifest.get("content"):
            return None
        for entry in read_plain_records(read_file(manifest["manifest_path"])):
            if entry["status"] == _DELETED:
                continue
            number, file = entry.get("sequence_number"), entry["data_file"]
            inherited = manifest.get("sequence_number") or 0
            latest = _decode_bound(file.get("upper_bounds"), time_id)
            entries.append((inherited if number is None else number, latest, file["file_path"]))
    entries.sort(key=lambda entry: entry[0])
    return [(latest, path) for _, latest, path in reversed(entries)]


def _find_time_id(document: Mapping[str, Any], table: StateTable[Row]) -> int:
    schemas = {schema["schema-id"]: schema for schema in document["schemas"]}
    fields = schemas[document["current-schema-id"]]["fields"]
    return next(int(field["id"]) for field in fields if field["name"] == table.time)


def _decode_bound(bounds: Sequence[Mapping[str, Any]] | None, field_id: int) -> datetime:
    """The time of a file's latest row, or a later one when it is not recorded."""
    bound = next((b["value"] for b in bounds or () if b["key"] == field_id), None)
    return EPOCH + timedelta(microseconds=int.from_bytes(bound, "little", signed=True)) if bound else END_OF_TIME
