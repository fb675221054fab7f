"""Two relations compared: their columns, and their rows as multisets or by a key.

Only counts and a few samples leave Spark. NULL equals NULL, NaN equals NaN, and equal rows count as often as they are
there. As keys 0.0 and -0.0 are one value, as in Spark; as values of a row they differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from sqb.errors.lake import UnsupportedType
from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, persisted, sum_changes, with_multiplicity
from sqb.spark.data.checksum import build_comparable
from sqb.spark.data.column_types import convert_type
from sqb.types.model import Type, has_fraction

_PLACE, _OLD, _NEW, _DIFFER = "__sqb_place", "__sqb_old", "__sqb_new", "__sqb_differ"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of two relations: the names and types of each, and those that both have."""

    before: tuple[tuple[str, str], ...]
    now: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A key whose row is another one: the columns that differ, with the value of before and the present one."""

    key: Mapping[str, Any]
    changes: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class RowsDiff:
    """How two multisets of rows differ."""

    added: int
    removed: int
    changed: int = 0
    # In how many of the changed rows each column differs; None without a key that has one row on each side.
    by_column: Mapping[str, int] | None = None
    unique: bool = True
    added_rows: tuple[Mapping[str, Any], ...] = ()
    removed_rows: tuple[Mapping[str, Any], ...] = ()
    changed_rows: tuple[ChangedRow, ...] = ()


def align_columns(before: DataFrame, now: DataFrame) -> tuple[DataFrame, DataFrame, Columns]:
    """Both relations with the columns that they share, in types in which these can be compared, and what they had."""
    old = {f.name.lower(): f for f in before.schema.fields}
    shared = [f for f in now.schema.fields if f.name.lower() in old]
    kinds = {f.name: _find_common_type(before, old[f.name.lower()].dataType, f.dataType) for f in shared}
    columns = Columns(_list_types(before.schema), _list_types(now.schema), tuple(kinds))
    return (
        before.select(*[_cast_as(old[n.lower()].name, n, k) for n, k in kinds.items()]),
        now.select(*[_cast_as(n, n, k) for n, k in kinds.items()]),
        columns,
    )


def _list_types(schema: t.StructType) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.dataType.simpleString()) for f in schema.fields)


def _cast_as(name: str, alias: str, kind: t.DataType) -> Column:
    value = F.col(quote(name)).cast(kind)
    if isinstance(kind, t.StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        # A collation may hold different texts for equal; here they differ.
        value = F.collate(value, "UTF8_BINARY")
    return value.alias(alias)


def _find_common_type(frame: DataFrame, one: t.DataType, other: t.DataType) -> t.DataType:
    """The type in which values of two types are compared: one that holds both, else their text."""
    kind = other
    if one.simpleString() != other.simpleString():
        try:
            both = F.coalesce(F.lit(None).cast(one), F.lit(None).cast(other))
            kind = frame.select(both.alias("c")).schema[0].dataType
        except AnalysisException:
            return t.StringType()
    try:
        build_comparable(F.lit(None).cast(kind), kind, "c")
    except UnsupportedType:
        return t.StringType()
    return kind


def keep_missing_rows(before: DataFrame, now: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows of now, and those of before whose key now has none of; both have the same columns."""
    same = reduce(Column.__and__, [before[quote(k)].eqNullSafe(now[quote(k)]) for k in key])
    return now.unionAll(before.join(now, same, "left_anti").select(*[quote(c) for c in now.columns]))


def compare_rows(before: DataFrame, now: DataFrame, key: Sequence[str], limit: int) -> RowsDiff:
    """How the rows of two relations with the same columns differ, by a key or without one as multisets."""
    names = now.columns
    both = with_multiplicity(now, 1, names).unionAll(with_multiplicity(before, -1, names))
    with persisted(sum_changes(both, names)) as change:
        return _compare_by_key(change, now.schema, key, limit) if key else _compare_multisets(change, now.schema, limit)


def _compare_multisets(change: DataFrame, schema: t.StructType, limit: int) -> RowsDiff:
    times = F.col(MULTIPLICITY)
    rows_added, rows_removed = F.sum(F.when(times > 0, times)), F.sum(F.when(times < 0, -times))
    totals = change.agg(rows_added, rows_removed).collect()[0]
    order = [_build_field_comparable(f) for f in schema.fields]
    samples = [
        _collect_rows(change.where(times * sign > 0).orderBy(*order).limit(limit).select(*_list_columns(schema)))
        for sign in (1, -1)
    ]
    return RowsDiff(
        int(totals[0] or 0), int(totals[1] or 0), added_rows=tuple(samples[0]), removed_rows=tuple(samples[1])
    )


def _compare_by_key(change: DataFrame, schema: t.StructType, key: Sequence[str], limit: int) -> RowsDiff:
    times = F.col(MULTIPLICITY)
    keys = [F.col(quote(k)) for k in key]
    rows_added = F.coalesce(F.sum(F.when(times > 0, times)), F.lit(0)).alias("rows_added")
    rows_removed = F.coalesce(F.sum(F.when(times < 0, -times)), F.lit(0)).alias("rows_removed")
    of_key = change.groupBy(*keys).agg(rows_added, rows_removed)
    extra, lost = F.col("rows_added") - F.col("rows_removed"), F.col("rows_removed") - F.col("rows_added")
    totals = of_key.agg(
        F.sum(F.greatest(extra, F.lit(0))),
        F.sum(F.greatest(lost, F.lit(0))),
        F.sum(F.least("rows_added", "rows_removed")),
        F.max(F.greatest("rows_added", "rows_removed")),
    ).collect()[0]
    added, removed, changed, max_rows = (int(n or 0) for n in totals)
    with persisted(_pair_rows(change, schema, key, max_rows <= 1)) as pairs:
        both = pairs.where(F.col(_OLD).isNotNull() & F.col(_NEW).isNotNull())
        # 0.0 and -0.0 are one key in two forms: then it is the key that shows what changed in the row.
        others = [f for f in schema.fields if f.name not in key or _may_hold_zeros(f)]
        order = [_build_field_comparable(f) for f in schema.fields if f.name in key]
        return RowsDiff(
            added,
            removed,
            changed,
            _count_by_column(both, others) if max_rows <= 1 else None,
            max_rows <= 1,
            _list_unpaired(pairs, _NEW, _OLD, order, limit),
            _list_unpaired(pairs, _OLD, _NEW, order, limit),
            _list_changed(both, key, others, order, limit),
        )


def _pair_rows(change: DataFrame, schema: t.StructType, key: Sequence[str], unique: bool) -> DataFrame:
    """For each key its row of before and its present one; of several under one key the first with the first."""
    times = F.col(MULTIPLICITY)
    place: Column = F.lit(1)
    if not unique:
        parts = [F.col(quote(k)) for k in key]
        order = [_build_field_comparable(f) for f in schema.fields]
        place = F.row_number().over(Window.partitionBy(*parts, times > 0).orderBy(*order))
    row = F.struct(*_list_columns(schema))
    numbered = change.withColumn(_PLACE, place)
    return numbered.groupBy(*[F.col(quote(k)) for k in key], _PLACE).agg(
        F.first(F.when(times < 0, row), ignorenulls=True).alias(_OLD),
        F.first(F.when(times > 0, row), ignorenulls=True).alias(_NEW),
    )


def _build_difference(field: t.StructField) -> Column:
    old = build_comparable(F.col(_OLD).getField(field.name), field.dataType, field.name)
    new = build_comparable(F.col(_NEW).getField(field.name), field.dataType, field.name)
    return ~old.eqNullSafe(new)


def _may_hold_zeros(field: t.StructField) -> bool:
    return has_fraction(convert_type(field.dataType))


def _count_by_column(both: DataFrame, fields: Sequence[t.StructField]) -> dict[str, int]:
    if not fields:
        return {}
    counts = both.agg(*[F.count(F.when(_build_difference(f), 1)) for f in fields]).collect()[0]
    return {f.name: int(n) for f, n in zip(fields, counts, strict=True) if n}


def _list_unpaired(
    pairs: DataFrame, has: str, lacks: str, order: Sequence[Column], limit: int
) -> tuple[Mapping[str, Any], ...]:
    alone = pairs.where(F.col(lacks).isNull()).orderBy(*order).limit(limit)
    return tuple(_to_json_value(row[0]) for row in alone.select(has).collect())


def _list_changed(
    both: DataFrame, key: Sequence[str], fields: Sequence[t.StructField], order: Sequence[Column], limit: int
) -> tuple[ChangedRow, ...]:
    flags = F.array(*[_build_difference(f) for f in fields]) if fields else F.array(F.lit(False))
    rows = both.orderBy(*order).limit(limit).select(_OLD, _NEW, flags.alias(_DIFFER)).collect()
    return tuple(
        ChangedRow(
            {k: _to_json_value(new[k]) for k in key},
            {
                f.name: (_to_json_value(old[f.name]), _to_json_value(new[f.name]))
                for f, differs in zip(fields, flags, strict=False)
                if differs
            },
        )
        for old, new, flags in rows
    )


def _build_field_comparable(field: t.StructField) -> Column:
    return build_comparable(F.col(quote(field.name)), field.dataType, field.name)


def _list_columns(schema: t.StructType) -> list[Column]:
    return [F.col(quote(f.name)) for f in schema.fields]


def _collect_rows(frame: DataFrame) -> list[Mapping[str, Any]]:
    return [_to_json_value(row) for row in frame.collect()]


def _to_json_value(value: Any) -> Any:
    """A value as JSON can hold it."""
    match value:
        case Row():
            return {name: _to_json_value(item) for name, item in value.asDict().items()}
        case dict():
            return {_format_key(name): _to_json_value(item) for name, item in value.items()}
        case list() | tuple():
            return [_to_json_value(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case bytes() | bytearray():
            return f"0x{bytes(value).hex()}"
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _format_key(name: Any) -> str:
    key = _to_json_value(name)
    return key if isinstance(key, str) else str(key)


def count_rows(frame: DataFrame) -> int:
    """How many rows there are."""
    return frame.count()


def create_frame(
    session: SparkSession, columns: Sequence[tuple[str, Type]], values: Sequence[Sequence[Any]]
) -> DataFrame:
    """Small rows, given column by column, under names and types."""
    import pyarrow as pa  # only seeds are compared from memory

    from sqb.types.arrow import to_arrow_type

    schema = pa.schema([(name, to_arrow_type(kind)) for name, kind in columns])
    arrays = [pa.array(column, type=field.type) for column, field in zip(values, schema, strict=True)]
    # Rows as Python objects would start Python workers beside Java.
    return session.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def filter_current_rows(frame: DataFrame, own_columns: Sequence[str]) -> DataFrame:
    """The rows of a history that are current, without the columns that it keeps for itself."""
    return frame.where("is_current").drop(*own_columns)
