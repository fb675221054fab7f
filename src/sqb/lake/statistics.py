"""The greatest and the smallest value of a column, from the statistics of its data files: exact, or not told.

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
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
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

from sqb.lake.snapshots import has_delete_files, live_entries

_EXACT = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
_COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
_EPOCH = datetime(1970, 1, 1)


class Untold(Exception):
    """The statistics do not tell; somebody has to look at the rows."""


def column_maximum(
    document: Mapping[str, Any], column: str, filter_: str | None, options: Mapping[str, str] = EMPTY_DICT
) -> int | date | datetime | None:
    """The greatest value of a column of the table with this metadata; None when it has no value at all."""
    return _extreme(document, column, filter_, options, smallest=False)


def column_minimum(
    document: Mapping[str, Any], column: str, options: Mapping[str, str] = EMPTY_DICT
) -> int | date | datetime | None:
    """The smallest value of a column of the table with this metadata; None when it has no value at all."""
    return _extreme(document, column, None, options, smallest=True)


def _extreme(
    document: Mapping[str, Any], column: str, filter_: str | None, options: Mapping[str, str], smallest: bool
) -> int | date | datetime | None:
    current = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    found = next((s for s in document.get("snapshots") or () if s["snapshot-id"] == current), None)
    if found is None:
        return None
    snapshot = Snapshot.model_validate(found)
    io = load_file_io(dict(options), snapshot.manifest_list)
    if has_delete_files(snapshot, io):
        raise Untold("it has delete files")
    schema_id = document.get("current-schema-id", 0)
    schema = next(Schema.model_validate(s) for s in document["schemas"] if s.get("schema-id", 0) == schema_id)
    field = _field(schema, column)
    files = [entry.data_file for entry in live_entries(snapshot, io)]
    if filter_ is not None:
        files = list(_passing(files, schema, filter_))
    bounds = [bound for file in files if (bound := _bound(file, field, smallest)) is not None]
    return _value(min(bounds) if smallest else max(bounds), field.field_type) if bounds else None


def _field(schema: Schema, column: str) -> NestedField:
    field = next((f for f in schema.fields if f.name.lower() == column.lower()), None)
    if field is None or not isinstance(field.field_type, _EXACT):
        raise Untold("its bounds may be cut off")
    return field


def _bound(file: DataFile, field: NestedField, smallest: bool) -> int | None:
    """The greatest or smallest value in a file as a number; None when it has none."""
    nulls = (file.null_value_counts or {}).get(field.field_id)
    values = (file.value_counts or {}).get(field.field_id)
    if file.record_count == 0 or (values is not None and nulls == values):
        return None
    raw = ((file.lower_bounds if smallest else file.upper_bounds) or {}).get(field.field_id)
    if raw is None or len(raw) not in (4, 8):
        raise Untold("not all of its files have statistics of the column")
    # A column that was widened has narrower bounds in older files.
    return int(struct.unpack("<i" if len(raw) == 4 else "<q", raw)[0])


def _value(bound: int, kind: object) -> int | date | datetime:
    match kind:
        case DateType():
            return _EPOCH.date() + timedelta(days=bound)
        case TimestampType():
            return _EPOCH + timedelta(microseconds=bound)
        case TimestamptzType():
            return _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=bound)
        case _:
            return bound


def _passing(files: Iterable[DataFile], schema: Schema, text: str) -> Iterator[DataFile]:
    """The files all of whose rows pass a filter; raises when some file has rows that do and rows that do not."""
    try:
        wanted = parse(text)
    except Exception as error:
        raise Untold("the filter is more than statistics can tell") from error
    if not _means_the_same(wanted, schema):
        raise Untold("the filter is more than statistics can tell")
    some = _InclusiveMetricsEvaluator(schema, wanted, case_sensitive=False)
    every = _StrictMetricsEvaluator(schema, wanted, case_sensitive=False)
    for file in files:
        if not some.eval(file):
            continue
        if not every.eval(file):
            raise Untold("the filter goes through the middle of a file")
        yield file


def _means_the_same(wanted: BooleanExpression, schema: Schema) -> bool:
    """Whether Spark would understand a filter as pyiceberg does.

    Negations are not among them: to Iceberg a NULL is unequal to everything, to SQL it is not.
    """
    match wanted:
        case And() | Or():
            return _means_the_same(wanted.left, schema) and _means_the_same(wanted.right, schema)
        case AlwaysTrue():
            return True
        case IsNull() | NotNull():
            return _type_of(wanted.term, schema) is not None
    if isinstance(wanted, _COMPARISONS):
        return _fits(wanted.literal, _type_of(wanted.term, schema))
    if isinstance(wanted, In):
        return all(_fits(literal, _type_of(wanted.term, schema)) for literal in wanted.literals)
    return False


def _type_of(term: object, schema: Schema) -> PrimitiveType | None:
    name = term.name.lower() if isinstance(term, Reference) else ""
    found = next((f.field_type for f in schema.fields if f.name.lower() == name), None)
    return found if isinstance(found, PrimitiveType) else None


def _fits(literal: object, kind: PrimitiveType | None) -> bool:
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
