"""The content of a relation as one small value: how many rows, and two sums of hashes that no order can change.

Each row is hashed twice, independently; the hashes are summed modulo 2^64. Sums can be added and subtracted, so the
content after a change follows from the rows that were added and removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as t

from sqb.errors.lake import UnsupportedType
from sqb.names import quote

_MODULUS = 1 << 64
_LOW_HALF = 0xFFFFFFFF
# Before the names of what is observed of some columns only.
PART = "part_"
# Any constants do, as long as they never change: the second hash of a row starts from another place than the first.
_SALTS = (0x5153_4201, 0x5153_4202)
_PLAIN = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.BinaryType,
    t.CharType,
    t.VarcharType,
)


@dataclass(frozen=True, slots=True)
class Content:
    """A multiset of rows, summed up; equal multisets have equal contents."""

    count: int = 0
    sums: tuple[int, int] = (0, 0)

    def __add__(self, other: Content) -> Content:
        first, second = ((a + b) % _MODULUS for a, b in zip(self.sums, other.sums, strict=True))
        return Content(self.count + other.count, (first, second))

    def __sub__(self, other: Content) -> Content:
        first, second = ((a - b) % _MODULUS for a, b in zip(self.sums, other.sums, strict=True))
        return Content(self.count - other.count, (first, second))

    def __str__(self) -> str:
        return f"n:{self.count}:{self.sums[0]:016x}:{self.sums[1]:016x}"

    @classmethod
    def parse(cls, text: str) -> Content:
        """The content that `str` wrote."""
        _, count, first, second = text.split(":")
        return cls(int(count), (int(first, 16), int(second, 16)))


def build_content_columns(schema: t.StructType, prefix: str = "") -> list[Column]:
    """The aggregates that give the content of rows of `schema`: their number and the sums of their hashes."""
    return _build_sums(_build_hashes(schema), prefix=prefix)


def select_fields(schema: t.StructType, columns: Sequence[str]) -> t.StructType:
    """Some columns of a schema, in the order in which they are named."""
    fields = {field.name.lower(): field for field in schema.fields}
    return t.StructType([fields[name.lower()] for name in columns])


def build_weighted_columns(schema: t.StructType, weight: Column) -> list[Column]:
    """The aggregates that give the content of rows of `schema`, each counted `weight` times."""
    return _build_sums(_build_hashes(schema), weight)


def observe_content(frame: DataFrame, observation: Observation, part: Sequence[str] | None = None) -> DataFrame:
    """The same rows; `observation` holds the values of `content_columns` once they have been written.

    With `part` it holds those of these columns alone, too, under the prefix `PART`.
    """
    schemas = {"": frame.schema} | ({PART: select_fields(frame.schema, part)} if part is not None else {})
    names = {prefix: _choose_free_names(frame.columns, prefix) for prefix in schemas}
    # Observed aggregates are evaluated one by one, so each hash is made a column first instead of being computed twice.
    hashes = [
        h.alias(n) for prefix in schemas for h, n in zip(_build_hashes(schemas[prefix]), names[prefix], strict=True)
    ]
    sums = [s for prefix in schemas for s in _build_sums([F.col(name) for name in names[prefix]], prefix=prefix)]
    observed = frame.select("*", *hashes).observe(observation, *sums)
    return observed.select(*(quote(name) for name in frame.columns))


def parse_content_sums(observed: Mapping[str, Any], prefix: str = "") -> Content:
    """The content in the observed values of `content_columns`; sums over no rows are NULL."""
    highs, lows = ([observed[f"{prefix}{half}_{i}"] or 0 for i in range(len(_SALTS))] for half in ("high", "low"))
    first, second = (((high << 32) + low) % _MODULUS for high, low in zip(highs, lows, strict=True))
    return Content(int(observed[f"{prefix}rows"] or 0), (first, second))


def format_content(observed: Mapping[str, Any], prefix: str = "") -> str:
    """The text of the content in the observed values of `content_columns`."""
    return str(parse_content_sums(observed, prefix))


def _build_hashes(schema: t.StructType) -> list[Column]:
    parts = [
        part
        for field in schema.fields
        for part in _list_hash_inputs(F.col(quote(field.name)), field.dataType, field.name)
    ]
    return [F.xxhash64(F.lit(salt), *parts) for salt in _SALTS]


def build_comparable(value: Column, kind: t.DataType, name: str) -> Column:
    """A value in a form that can be compared, sorted and grouped by whatever its type is: maps cannot themselves."""
    return F.struct(*_list_hash_inputs(value, kind, name))


def _build_sums(hashes: Sequence[Column], weight: Column | None = None, prefix: str = "") -> list[Column]:
    times = F.lit(1).cast("bigint") if weight is None else weight
    return [
        (F.count(F.lit(1)) if weight is None else F.sum(weight)).alias(f"{prefix}rows"),
        # Halves, because a sum of whole hashes overflows after a few rows and ANSI mode makes that an error.
        *(F.sum(F.shiftright(h, 32) * times).alias(f"{prefix}high_{i}") for i, h in enumerate(hashes)),
        *(F.sum(h.bitwiseAND(F.lit(_LOW_HALF)) * times).alias(f"{prefix}low_{i}") for i, h in enumerate(hashes)),
    ]


def _choose_free_names(taken: Sequence[str], suffix: str) -> list[str]:
    prefix = "_sqb_hash"
    while any(name.lower().startswith(prefix) for name in taken):
        prefix += "_"
    return [f"{prefix}{suffix}{i}" for i in range(len(_SALTS))]


def _list_hash_inputs(value: Column, kind: t.DataType, name: str) -> list[Column]:
    """What to hash for a value, such that different values never give the same sequence.

    Spark's hash skips NULLs and runs nested values together, so NULLs and sizes are hashed beside the values. It sees
    every NaN as one and -0.0 as 0.0, as equality in Spark does; but a row shows which of the two it holds, so that -0.0
    has a mark, which is NULL for every other value.
    """
    match kind:
        case t.StringType():
            # A collation may hold different texts for equal; the table stores the text.
            return [value.isNull(), value if _is_binary_collation(kind) else F.collate(value, "UTF8_BINARY")]
        case t.ArrayType():
            items = F.transform(
                value, lambda item: F.struct(*_list_hash_inputs(item, kind.elementType, f"{name}.element"))
            )
            return [value.isNull(), F.size(value), items]
        case t.MapType():
            entries = F.transform(F.map_entries(value), lambda entry: _build_entry(entry, kind, name))
            return [value.isNull(), F.size(value), F.array_sort(entries)]
        case t.StructType():
            fields = (_list_hash_inputs(value.getField(f.name), f.dataType, f"{name}.{f.name}") for f in kind.fields)
            return [value.isNull(), *(part for field in fields for part in field)]
        case t.FloatType() | t.DoubleType():
            is_minus_zero = (value == F.lit(0).cast(kind)) & (value.cast("string") == F.lit("-0.0"))
            return [value.isNull(), value, F.when(is_minus_zero, F.lit(True))]
        case _ if isinstance(kind, _PLAIN):
            return [value.isNull(), value]
        case _:
            raise UnsupportedType(
                f'column "{name}" has the type {kind.simpleString()}, which an Iceberg table cannot hold',
                hint="cast it to a type that can be stored, for instance STRING",
            )


def _build_entry(entry: Column, kind: t.MapType, name: str) -> Column:
    key = _list_hash_inputs(entry.getField("key"), kind.keyType, f"{name}.key")
    value = _list_hash_inputs(entry.getField("value"), kind.valueType, f"{name}.value")
    return F.struct(*key, *value)


def _is_binary_collation(kind: t.StringType) -> bool:
    return getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY"
