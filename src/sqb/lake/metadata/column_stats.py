"""The greatest and the smallest value of a column, from the statistics of its data files: exact, or not at all.

Only types whose bounds are never cut off count, only tables without delete files, and only filters of which each file's
statistics say that all of its rows pass or none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import LongLiteral, StringLiteral
from pyiceberg.expressions.parser import parse
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from sqb.lake.commit.snapshot import has_delete_files, list_live_entries
from sqb.lake.port import NotInStatistics
from sqb.lake.private_api import build_file_filters

_EXACT = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
_COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
_EPOCH = datetime(1970, 1, 1)


def compute_column_maximum(
    document: Mapping[str, Any], column: str, filter_: str | None, options: Mapping[str, str] = EMPTY_DICT
) -> int | date | datetime | None:
    """The greatest value of a column of the table with this metadata; None when it has no value at all."""
    return _compute_extreme(document, column, filter_, options, smallest=False)


def compute_column_minimum(
    document: Mapping[str, Any], column: str, options: Mapping[str, str] = EMPTY_DICT
) -> int | date | datetime | None:
    """The smallest value of a column of the table with this metadata; None when it has no value at all."""
    return _compute_extreme(document, column, None, options, smallest=True)


def _compute_extreme(
    document: Mapping[str, Any], column: str, filter_: str | None, options: Mapping[str, str], smallest: bool
) -> int | date | datetime | None:
    current = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    current_snapshot = next((s for s in document.get("snapshots") or () if s["snapshot-id"] == current), None)
    if current_snapshot is None:
        return None
    snapshot = Snapshot.model_validate(current_snapshot)
    io = load_file_io(dict(options), snapshot.manifest_list)
    if has_delete_files(snapshot, io):
        raise NotInStatistics("it has delete files")
    schema_id = document.get("current-schema-id", 0)
    schema = next(Schema.model_validate(s) for s in document["schemas"] if s.get("schema-id", 0) == schema_id)
    field = _find_field(schema, column)
    files = [entry.data_file for entry in list_live_entries(snapshot, io)]
    if filter_ is not None:
        files = list(_filter_files(files, schema, filter_))
    bounds = [bound for file in files if (bound := _read_bound(file, field, smallest)) is not None]
    return _convert_bound(min(bounds) if smallest else max(bounds), field.field_type) if bounds else None


def _find_field(schema: Schema, column: str) -> NestedField:
    field = next((f for f in schema.fields if f.name.lower() == column.lower()), None)
    if field is None or not isinstance(field.field_type, _EXACT):
        raise NotInStatistics("its bounds may be cut off")
    return field


def _read_bound(file: DataFile, field: NestedField, smallest: bool) -> int | None:
    """The greatest or smallest value in a file as a number; None when it has none."""
    nulls = (file.null_value_counts or {}).get(field.field_id)
    values = (file.value_counts or {}).get(field.field_id)
    if file.record_count == 0 or (values is not None and nulls == values):
        return None
    raw = ((file.lower_bounds if smallest else file.upper_bounds) or {}).get(field.field_id)
    if raw is None or len(raw) not in (4, 8):
        raise NotInStatistics("not all of its files have statistics of the column")
    # A column that was widened has narrower bounds in older files.
    return int(struct.unpack("<i" if len(raw) == 4 else "<q", raw)[0])


def _convert_bound(bound: int, kind: object) -> int | date | datetime:
    match kind:
        case DateType():
            return _EPOCH.date() + timedelta(days=bound)
        case TimestampType():
            return _EPOCH + timedelta(microseconds=bound)
        case TimestamptzType():
            return _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=bound)
        case _:
            return bound


def _filter_files(files: Iterable[DataFile], schema: Schema, text: str) -> Iterator[DataFile]:
    """The files all of whose rows pass a filter; raises when some file has rows that do and rows that do not."""
    try:
        expression = parse(text)
    except Exception as error:
        raise NotInStatistics("statistics cannot answer this filter") from error
    if not _is_portable_filter(expression, schema):
        raise NotInStatistics("statistics cannot answer this filter")
    may_match, matches_fully = build_file_filters(schema, expression)
    for file in files:
        if not may_match(file):
            continue
        if not matches_fully(file):
            raise NotInStatistics("the filter goes through the middle of a file")
        yield file


def _is_portable_filter(expression: BooleanExpression, schema: Schema) -> bool:
    """Whether Spark would understand a filter as pyiceberg does.

    Negations are not among them: to Iceberg a NULL is unequal to everything, to SQL it is not.
    """
    match expression:
        case And() | Or():
            return _is_portable_filter(expression.left, schema) and _is_portable_filter(expression.right, schema)
        case AlwaysTrue():
            return True
        case IsNull() | NotNull():
            return _find_type(expression.term, schema) is not None
    if isinstance(expression, _COMPARISONS):
        return _is_portable_literal(expression.literal, _find_type(expression.term, schema))
    if isinstance(expression, In):
        return all(
            _is_portable_literal(literal, _find_type(expression.term, schema)) for literal in expression.literals
        )
    return False


def _find_type(term: object, schema: Schema) -> PrimitiveType | None:
    name = term.name.lower() if isinstance(term, Reference) else ""
    kind = next((f.field_type for f in schema.fields if f.name.lower() == name), None)
    return kind if isinstance(kind, PrimitiveType) else None


def _is_portable_literal(literal: object, kind: PrimitiveType | None) -> bool:
    match literal:
        case LongLiteral():
            return isinstance(kind, IntegerType | LongType)
        case StringLiteral():
            # What a backslash means is a matter of Spark's settings.
            plain = "\\" not in literal.value
            return plain and (isinstance(kind, StringType) or (isinstance(kind, DateType) and _is_date(literal.value)))
        case _:
            return False


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
