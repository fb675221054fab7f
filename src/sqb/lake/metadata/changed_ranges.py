"""Between which values of a column the changed rows of a table lie, and how many rows of another one lie there.

From manifests alone, so both are upper bounds: of a file that changed all rows count, and of one whose statistics say
nothing of the column all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from sqb.lake.metadata.changed_files import TableLayout, decode_bounds
from sqb.lake.metadata.file_entries import FileEntry
from sqb.lake.metadata.manifest_reader import UNREADABLE, ManifestReader
from sqb.lake.port import ColumnRanges
from sqb.lake.storage.base import Storage

# What is compared as numbers, by the names that Iceberg has for types.
_KINDS: dict[str, Literal["bigint", "date", "timestamp"]] = {
    "int": "bigint",
    "long": "bigint",
    "date": "date",
    "timestamptz": "timestamp",
}
# With more ranges, those nearest to each other become one.
_MOST_RANGES = 8


def read_changed_ranges(
    document: Mapping[str, Any], storage: Storage, old: int, new: int, columns: Iterable[str]
) -> dict[str, ColumnRanges]:
    """For each of these columns the ranges of its values in files that changed; without those that are not known."""
    reader, known = ManifestReader(storage, document), {}
    fields = {name: field for name in columns if (field := _find_field(document, name)) is not None}
    try:
        compared = reader.compare(old, new)
    except UNREADABLE:
        return {}
    files = (*compared.added, *compared.removed, *compared.hidden_then, *compared.hidden_now)
    for name, field in fields.items():
        kind = _KINDS.get(reader.layout.types.get(field, ""))
        bounds = _list_bounds(files, field, reader.layout)
        if kind is not None and bounds is not None:
            known[name] = ColumnRanges(kind, _join_ranges(bounds))
    return known


def count_rows_in_ranges(
    document: Mapping[str, Any], storage: Storage, snapshot_id: int, column: str, ranges: ColumnRanges
) -> int | None:
    """The rows of the files that may hold a value within some ranges; None where that is not known."""
    reader, field = ManifestReader(storage, document), _find_field(document, column)
    if field is None:
        return None
    rows = 0
    try:
        for file in reader.list_data_files(snapshot_id):
            bounds = _list_bounds([file], field, reader.layout)
            if bounds is None or any(low <= b[1] and b[0] <= high for b in bounds for low, high in ranges.ranges):
                rows += file.records
    except UNREADABLE:
        return None
    return rows


def _find_field(document: Mapping[str, Any], column: str) -> int | None:
    """The id of a column of a table as it is now."""
    current = document.get("current-schema-id", 0)
    schemas = document.get("schemas") or (document.get("schema") or {},)
    schema = next((s for s in schemas if s.get("schema-id", 0) == current), {})
    fields = [f["id"] for f in schema.get("fields") or () if f["name"].lower() == column.lower()]
    return fields[0] if len(fields) == 1 else None


def _list_bounds(files: Iterable[FileEntry], field: int, layout: TableLayout) -> list[tuple[int, int]] | None:
    """The bounds of a column in each file that has values of it; None where those of one are not known."""
    bounds = []
    for file in files:
        known = decode_bounds(file, field, layout.types.get(field))
        if known is not None:
            bounds.append(known)
        elif not file.records or file.null_counts.get(field) != file.records:
            return None
    return bounds


def _join_ranges(bounds: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same values as few ranges, in order."""
    ranges: list[tuple[int, int]] = []
    for low, high in sorted(bounds):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], high))
        else:
            ranges.append((low, high))
    while len(ranges) > _MOST_RANGES:
        nearest = min(range(1, len(ranges)), key=lambda i: ranges[i][0] - ranges[i - 1][1])
        ranges[nearest - 1 : nearest + 1] = [(ranges[nearest - 1][0], ranges[nearest][1])]
    return tuple(ranges)
