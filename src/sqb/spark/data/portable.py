"""Results with types that leave Spark: what only Spark can hold becomes text, as Spark writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from sqb.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Types that neither Arrow nor files have, and the one of a column that is nothing but NULL: readers know no such type.
_ONLY_SPARK = (t.NullType, t.YearMonthIntervalType, t.CalendarIntervalType, t.VariantType)


def make_portable(frame: DataFrame, is_for_file: bool) -> DataFrame:
    """The same rows, with text in the place of values that have no type in Python, or in files."""
    fields = frame.schema.fields
    kinds = (*_ONLY_SPARK, t.DayTimeIntervalType) if is_for_file else _ONLY_SPARK
    targets = [_choose_type(field.dataType, kinds) for field in fields]
    if all(field.dataType == target for field, target in zip(fields, targets, strict=True)):
        return frame
    names = [f"_{index}" for index in range(len(fields))]  # two columns may have one name
    columns = [
        _convert(F.col(quote(name)), field.dataType, target).alias(field.name)
        for name, field, target in zip(names, fields, targets, strict=True)
    ]
    return frame.toDF(*names).select(*columns)


def _convert(column: Column, kind: t.DataType, target: t.DataType) -> Column:
    if kind == target:
        return column
    is_nested = isinstance(kind, t.ArrayType | t.MapType | t.StructType)
    # Spark casts no variant within another value.
    return F.to_json(column) if is_nested and "variant" in kind.simpleString() else column.cast(target)


def _choose_type(kind: t.DataType, kinds: tuple[type[t.DataType], ...]) -> t.DataType:
    match kind:
        case t.ArrayType():
            return t.ArrayType(_choose_type(kind.elementType, kinds), _may_be_null(kind.elementType, kind.containsNull))
        case t.MapType():
            key, value = _choose_type(kind.keyType, kinds), _choose_type(kind.valueType, kinds)
            return t.MapType(key, value, _may_be_null(kind.valueType, kind.valueContainsNull))
        case t.StructType():
            fields = [
                t.StructField(f.name, _choose_type(f.dataType, kinds), _may_be_null(f.dataType, f.nullable), f.metadata)
                for f in kind.fields
            ]
            return t.StructType(fields)
        case _ if isinstance(kind, kinds):
            return t.StringType()
        case _:
            return kind


def _may_be_null(kind: t.DataType, is_nullable: bool) -> bool:
    """Whether values may be NULL: what an empty list has says of itself that it may not."""
    return is_nullable or isinstance(kind, t.NullType)
