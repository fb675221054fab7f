"""Two relations compared: their columns, and their rows as multisets or by a key.

Only counts and a few samples leave Spark. NULL equals NULL, NaN equals NaN, and equal rows count as often as they are
there.
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

from sqb.errors import UnsupportedType
from sqb.names import quote
from sqb.spark.changes import TIMES, kept, net, signed
from sqb.spark.checksum import comparable

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


def aligned(before: DataFrame, now: DataFrame) -> tuple[DataFrame, DataFrame, Columns]:
    """Both relations with the columns that they share, in types in which these can be compared, and what they had."""
    old = {f.name.lower(): f for f in before.schema.fields}
    shared = [f for f in now.schema.fields if f.name.lower() in old]
    kinds = {f.name: _common(before, old[f.name.lower()].dataType, f.dataType) for f in shared}
    columns = Columns(_typed(before.schema), _typed(now.schema), tuple(kinds))
    return (
        before.select(*[_as(old[n.lower()].name, n, k) for n, k in kinds.items()]),
        now.select(*[_as(n, n, k) for n, k in kinds.items()]),
        columns,
    )


def _typed(schema: t.StructType) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.dataType.simpleString()) for f in schema.fields)


def _as(name: str, alias: str, kind: t.DataType) -> Column:
    value = F.col(quote(name)).cast(kind)
    if isinstance(kind, t.StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        # A collation may hold different texts for equal; here they differ.
        value = F.collate(value, "UTF8_BINARY")
    return value.alias(alias)


def _common(frame: DataFrame, one: t.DataType, other: t.DataType) -> t.DataType:
    """The type in which values of two types are compared: one that holds both, else their text."""
    kind = other
    if one.simpleString() != other.simpleString():
        try:
            both = F.coalesce(F.lit(None).cast(one), F.lit(None).cast(other))
            kind = frame.select(both.alias("c")).schema[0].dataType
        except AnalysisException:
            return t.StringType()
    try:
        comparable(F.lit(None).cast(kind), kind, "c")
    except UnsupportedType:
        return t.StringType()
    return kind


def with_kept_rows(before: DataFrame, now: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows of now, and those of before whose key now has none of; both have the same columns."""
    same = reduce(Column.__and__, [before[quote(k)].eqNullSafe(now[quote(k)]) for k in key])
    return now.unionAll(before.join(now, same, "left_anti").select(*[quote(c) for c in now.columns]))


def compare_rows(before: DataFrame, now: DataFrame, key: Sequence[str], limit: int) -> RowsDiff:
    """How the rows of two relations with the same columns differ, by a key or without one as multisets."""
    names = now.columns
    both = signed(now, 1, names).unionAll(signed(before, -1, names))
    with kept(net(both, names)) as change:
        return _by_key(change, now.schema, key, limit) if key else _as_multisets(change, now.schema, limit)


def _as_multisets(change: DataFrame, schema: t.StructType, limit: int) -> RowsDiff:
    times = F.col(TIMES)
    came, went = F.sum(F.when(times > 0, times)), F.sum(F.when(times < 0, -times))
    found = change.agg(came, went).collect()[0]
    order = [_comparable(f) for f in schema.fields]
    samples = [
        _rows(change.where(times * sign > 0).orderBy(*order).limit(limit).select(*_columns(schema))) for sign in (1, -1)
    ]
    return RowsDiff(
        int(found[0] or 0), int(found[1] or 0), added_rows=tuple(samples[0]), removed_rows=tuple(samples[1])
    )


def _by_key(change: DataFrame, schema: t.StructType, key: Sequence[str], limit: int) -> RowsDiff:
    times = F.col(TIMES)
    keys = [F.col(quote(k)) for k in key]
    came = F.coalesce(F.sum(F.when(times > 0, times)), F.lit(0)).alias("came")
    went = F.coalesce(F.sum(F.when(times < 0, -times)), F.lit(0)).alias("went")
    of_key = change.groupBy(*keys).agg(came, went)
    extra, lost = F.col("came") - F.col("went"), F.col("went") - F.col("came")
    totals = of_key.agg(
        F.sum(F.greatest(extra, F.lit(0))),
        F.sum(F.greatest(lost, F.lit(0))),
        F.sum(F.least("came", "went")),
        F.max(F.greatest("came", "went")),
    ).collect()[0]
    added, removed, changed, most = (int(n or 0) for n in totals)
    with kept(_paired(change, schema, key, most <= 1)) as pairs:
        both = pairs.where(F.col(_OLD).isNotNull() & F.col(_NEW).isNotNull())
        others = [f for f in schema.fields if f.name not in key]
        order = [_comparable(f) for f in schema.fields if f.name in key]
        return RowsDiff(
            added,
            removed,
            changed,
            _by_column(both, others) if most <= 1 else None,
            most <= 1,
            _side(pairs, _NEW, _OLD, order, limit),
            _side(pairs, _OLD, _NEW, order, limit),
            _changed(both, key, others, order, limit),
        )


def _paired(change: DataFrame, schema: t.StructType, key: Sequence[str], unique: bool) -> DataFrame:
    """For each key its row of before and its present one; of several under one key the first with the first."""
    times = F.col(TIMES)
    place: Column = F.lit(1)
    if not unique:
        parts = [_comparable(f) for f in schema.fields if f.name in key]
        order = [_comparable(f) for f in schema.fields]
        place = F.row_number().over(Window.partitionBy(*parts, times > 0).orderBy(*order))
    row = F.struct(*_columns(schema))
    numbered = change.withColumn(_PLACE, place)
    return numbered.groupBy(*[F.col(quote(k)) for k in key], _PLACE).agg(
        F.first(F.when(times < 0, row), ignorenulls=True).alias(_OLD),
        F.first(F.when(times > 0, row), ignorenulls=True).alias(_NEW),
    )


def _differs(field: t.StructField) -> Column:
    old = comparable(F.col(_OLD).getField(field.name), field.dataType, field.name)
    new = comparable(F.col(_NEW).getField(field.name), field.dataType, field.name)
    return ~old.eqNullSafe(new)


def _by_column(both: DataFrame, fields: Sequence[t.StructField]) -> dict[str, int]:
    if not fields:
        return {}
    found = both.agg(*[F.count(F.when(_differs(f), 1)) for f in fields]).collect()[0]
    return {f.name: int(n) for f, n in zip(fields, found, strict=True) if n}


def _side(pairs: DataFrame, has: str, lacks: str, order: Sequence[Column], limit: int) -> tuple[Mapping[str, Any], ...]:
    alone = pairs.where(F.col(lacks).isNull()).orderBy(*order).limit(limit)
    return tuple(_plain(row[0]) for row in alone.select(has).collect())


def _changed(
    both: DataFrame, key: Sequence[str], fields: Sequence[t.StructField], order: Sequence[Column], limit: int
) -> tuple[ChangedRow, ...]:
    flags = F.array(*[_differs(f) for f in fields]) if fields else F.array(F.lit(False))
    found = both.orderBy(*order).limit(limit).select(_OLD, _NEW, flags.alias(_DIFFER)).collect()
    return tuple(
        ChangedRow(
            {k: _plain(new[k]) for k in key},
            {
                f.name: (_plain(old[f.name]), _plain(new[f.name]))
                for f, differs in zip(fields, flags, strict=False)
                if differs
            },
        )
        for old, new, flags in found
    )


def _comparable(field: t.StructField) -> Column:
    return comparable(F.col(quote(field.name)), field.dataType, field.name)


def _columns(schema: t.StructType) -> list[Column]:
    return [F.col(quote(f.name)) for f in schema.fields]


def _rows(frame: DataFrame) -> list[Mapping[str, Any]]:
    return [_plain(row) for row in frame.collect()]


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    match value:
        case Row():
            return {name: _plain(item) for name, item in value.asDict().items()}
        case dict():
            return {_text(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
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


def _text(name: Any) -> str:
    found = _plain(name)
    return found if isinstance(found, str) else str(found)


def count_rows(frame: DataFrame) -> int:
    """How many rows there are."""
    return frame.count()


def frame_of_rows(
    session: SparkSession, columns: Sequence[tuple[str, str]], values: Sequence[Sequence[Any]]
) -> DataFrame:
    """Small rows, given column by column, under names and types as SQL writes them."""
    import pyarrow as pa  # only seeds are compared from memory
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = t.DataType.fromDDL(", ".join(f"{quote(name)} {kind}" for name, kind in columns))
    assert isinstance(schema, t.StructType)
    fields = to_arrow_schema(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(values, fields, strict=True)]
    # Rows as Python objects would start Python workers beside Java.
    return session.createDataFrame(pa.Table.from_arrays(arrays, schema=fields), schema)


def current_rows(frame: DataFrame, own: Sequence[str]) -> DataFrame:
    """The rows of a history that are current, without the columns that it keeps for itself."""
    return frame.where("is_current").drop(*own)
