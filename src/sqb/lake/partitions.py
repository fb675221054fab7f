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

from sqb.lake.manifests import entries_of, manifests_of
from sqb.lake.snapshots import live_entries

_EPOCH = datetime.date(1970, 1, 1)
_PLAIN = (BooleanType, IntegerType, LongType, StringType, DateType)


def changed_partitions(table: Table, snapshots: Iterable[int]) -> dict[str, list[Any]]:
    """For each column that partitions every changed file by its value: the values of those files.

    A column that does not partition all of them is not in the answer; with none, the answer is empty.
    """
    wanted = set(snapshots)
    found: dict[str, set[Any]] | None = None
    for entry in _changed(table, wanted):
        values = _values(table, entry)
        if found is None:
            found = {name: {value} for name, value in values.items()}
        else:
            found = {name: seen | {values[name]} for name, seen in found.items() if name in values}
    return {name: sorted(seen, key=lambda v: (v is None, str(v))) for name, seen in (found or {}).items()}


def files_with(table: Table, column: str, values: Iterable[Any]) -> list[str] | None:
    """The data files of these values of a column; None when the column does not partition every file by its value."""
    if not any(isinstance(f.transform, IdentityTransform) for f in table.metadata.spec().fields):
        return None
    wanted = set(values)
    found: list[str] = []
    for entry in live_entries(table.metadata.current_snapshot(), table.io):
        held = {name.lower(): value for name, value in _values(table, entry).items()}
        if column.lower() not in held:
            return None
        if held[column.lower()] in wanted:
            found.append(entry.data_file.file_path)
    return found


def _changed(table: Table, snapshots: set[int]) -> Iterable[ManifestEntry]:
    seen: set[str] = set()
    for snapshot_id in snapshots:
        snapshot = table.metadata.snapshot_by_id(snapshot_id)
        for manifest in manifests_of(snapshot, table.io):
            if manifest.added_snapshot_id not in snapshots or manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in entries_of(manifest, table.io, discard_deleted=False):
                if entry.status != ManifestEntryStatus.EXISTING:
                    yield entry


def _values(table: Table, entry: ManifestEntry) -> dict[str, Any]:
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
                values[column.name] = _value(entry.data_file.partition[position], is_date)
    return values


def _value(value: Any, is_date: bool) -> Any:
    if is_date and isinstance(value, int):
        return _EPOCH + datetime.timedelta(days=value)
    return value
