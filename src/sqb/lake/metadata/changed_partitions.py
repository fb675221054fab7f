"""Which partitions changed between two snapshots, from manifests alone: no data file is opened."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DateType, IntegerType, LongType, StringType

from sqb.lake.commit.snapshot import list_live_entries
from sqb.lake.metadata.manifests import read_entries, read_manifests

_EPOCH = datetime.date(1970, 1, 1)
_PLAIN = (BooleanType, IntegerType, LongType, StringType, DateType)


def find_changed_partitions(table: Table, snapshots: Iterable[int]) -> dict[str, list[Any]]:
    """For each column that partitions every changed file by its value: the values of those files.

    A column that does not partition all of them is not in the answer; with none, the answer is empty.
    """
    snapshot_ids = set(snapshots)
    values_by_column: dict[str, set[Any]] | None = None
    for entry in _iter_changed_entries(table, snapshot_ids):
        values = _read_partition_values(table, entry)
        if values_by_column is None:
            values_by_column = {name: {value} for name, value in values.items()}
        else:
            values_by_column = {
                name: seen | {values[name]} for name, seen in values_by_column.items() if name in values
            }
    return {name: sorted(seen, key=lambda v: (v is None, str(v))) for name, seen in (values_by_column or {}).items()}


def find_files_with_values(table: Table, column: str, values: Iterable[Any]) -> list[str] | None:
    """The data files of these values of a column; None when the column does not partition every file by its value."""
    if not any(isinstance(f.transform, IdentityTransform) for f in table.metadata.spec().fields):
        return None
    wanted_values = set(values)
    paths: list[str] = []
    for entry in list_live_entries(table.metadata.current_snapshot(), table.io):
        partition = {name.lower(): value for name, value in _read_partition_values(table, entry).items()}
        if column.lower() not in partition:
            return None
        if partition[column.lower()] in wanted_values:
            paths.append(entry.data_file.file_path)
    return paths


def _iter_changed_entries(table: Table, snapshots: set[int]) -> Iterable[ManifestEntry]:
    seen: set[str] = set()
    for snapshot_id in snapshots:
        snapshot = table.metadata.snapshot_by_id(snapshot_id)
        for manifest in read_manifests(snapshot, table.io):
            if manifest.added_snapshot_id not in snapshots or manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in read_entries(manifest, table.io, discard_deleted=False):
                if entry.status != ManifestEntryStatus.EXISTING:
                    yield entry


def _read_partition_values(table: Table, entry: ManifestEntry) -> dict[str, Any]:
    spec: PartitionSpec = table.metadata.specs()[entry.data_file.spec_id]
    schema = table.metadata.schema()
    values: dict[str, Any] = {}
    for position, field in enumerate(spec.fields):
        column = next((f for f in schema.fields if f.field_id == field.source_id), None)
        if column is None or not isinstance(field.transform, IdentityTransform):
            continue
        if isinstance(column.field_type, _PLAIN):
            # Python has no dates before the year 1 and after 9999: a partition of one is not known by its value.
            with suppress(OverflowError):
                is_date = isinstance(column.field_type, DateType)
                values[column.name] = _convert_value(entry.data_file.partition[position], is_date)
    return values


def _convert_value(value: Any, is_date: bool) -> Any:
    if is_date and isinstance(value, int):
        return _EPOCH + datetime.timedelta(days=value)
    return value
