"""DataFrames of loaders: their columns, and the same values in a table's types, exactly or refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.errors.build import RowsUnfit
from sqb.lake.port import Column as TableColumn
from sqb.lake.port import Shape
from sqb.names import quote
from sqb.spark.data.checksum import build_content_columns, format_content
from sqb.spark.data.column_types import list_types
from sqb.spark.data.frames import write_to_stage
from sqb.types import model as m
from sqb.types.format import format_sql_type
from sqb.types.iceberg import to_stored_type
from sqb.types.model import ArrayType, DecimalType, Field, MapType, StructType, Type
from sqb.types.text import can_parse_text

_MARK = "sqb: a value does not fit: "
_MARKED = re.compile(re.escape(_MARK) + r"(.*?)\u2063", re.DOTALL)
_END = "\u2063"
_TEXTS = (m.BOOLEAN, m.INT, m.BIGINT, m.DATE)
_MOMENTS = {(m.DATE, m.TIMESTAMP), (m.DATE, m.TIMESTAMP_NTZ), (m.TIMESTAMP_NTZ, m.TIMESTAMP)}


def list_stored_types(frame: DataFrame) -> list[tuple[str, Type]]:
    """The columns of a frame with the types as which a table holds them; names may be there twice.

    A field that these rows have in all their structs may be left out by the next ones.
    """
    return [(name, m.make_nullable(to_stored_type(kind))) for name, kind in list_types(frame)]


def cast_to_columns(frame: DataFrame, columns: Sequence[tuple[str, str, Type]]) -> DataFrame:
    """The rows with exactly these columns: the name that each has in the frame ("" for none), its own, and its type."""
    types = dict(list_stored_types(frame))
    selected = []
    for source_name, name, kind in columns:
        value = F.col(quote(source_name)) if source_name else F.lit(None)
        selected.append(_cast_value(value, types.get(source_name, m.VOID), kind, name).alias(name))
    return frame.select(*selected)


def _cast_value(value: Column, source_type: Type, kind: Type, name: str) -> Column:
    match source_type, kind:
        case _ if source_type == kind:
            # Small whole numbers are one type in a table.
            return value.cast("int") if kind == m.INT else value
        case m.VOID, _:
            return value.cast(format_sql_type(kind))
        case ArrayType(inner), ArrayType(wanted):
            return F.transform(value, lambda item: _cast_value(item, inner, wanted, name))
        case MapType(key, inner), MapType(wanted_key, wanted):
            entries = F.transform(
                F.map_entries(value),
                lambda e: F.struct(
                    _cast_value(e.getField("key"), key, wanted_key, name),
                    _cast_value(e.getField("value"), inner, wanted, name),
                ),
            )
            return F.map_from_entries(entries)
        case StructType(), StructType(wanted_fields):
            return _cast_struct(value, source_type, wanted_fields, name)
        case _ if _can_become(source_type, kind):
            return _cast_checked(value, source_type, kind, name)
        case _:
            raise RowsUnfit(
                f'column "{name}" is {kind}, and its rows of type {source_type} do not fit',
                hint="give the column another type in the loader's columns=, or cast it",
            )


def _cast_struct(value: Column, source_type: StructType, target_fields: tuple[Field, ...], name: str) -> Column:
    present = source_type.fold_fields()
    parts = []
    for field in target_fields:
        source = present.get(field.name.lower())
        inner, part = (value.getField(source.name), source.type) if source is not None else (F.lit(None), m.VOID)
        parts.append(_cast_value(inner, part, field.type, f"{name}.{field.name}").alias(field.name))
    return F.when(value.isNotNull(), F.struct(*parts))


def _can_become(source_type: Type, kind: Type) -> bool:
    """Whether each value can be tried; narrower than what Spark casts, as it must stay what it is."""
    if m.is_number(source_type) and m.is_number(kind):
        return True
    if source_type == m.STRING:
        return can_parse_text(kind)
    if kind == m.STRING:
        return source_type in _TEXTS or isinstance(source_type, DecimalType)
    return (source_type, kind) in _MOMENTS or (kind == m.DATE and m.is_moment(source_type))


def _cast_checked(value: Column, source_type: Type, kind: Type, name: str) -> Column:
    """A value in another type, or an error if it would be another value."""
    cast_value = value.try_cast(format_sql_type(kind))
    fits = cast_value.isNotNull()
    if (source_type, kind) == (m.DOUBLE, m.FLOAT):
        # Who asks for floats of doubles asks for rounding, but not for infinity.
        fits = fits & ((F.abs(cast_value) != float("inf")) | (F.abs(value) == float("inf")))
    elif m.STRING not in (source_type, kind):
        fits = fits & cast_value.try_cast(format_sql_type(source_type)).eqNullSafe(value)
    types = f"is {kind}, and its rows of type {source_type} do not fit"
    message = f'column "{name}" {types}; one value is '
    error = F.raise_error(F.concat(F.lit(_MARK + message), value.cast("string"), F.lit(_END))).cast(
        format_sql_type(kind)
    )
    return F.when(value.isNull() | fits, cast_value).otherwise(error)


def parse_unfit_error(error: BaseException) -> RowsUnfit | None:
    """What a value that did not fit made Spark say, as an error of ours; None when it failed for another reason."""
    match = _MARKED.search(str(error))
    if match is None:
        return None
    return RowsUnfit(match[1], hint="give the column another type in the loader's columns=, or change the values")


def write_rows(
    session: SparkSession, frame: DataFrame, stage: str, columns: Sequence[TableColumn], sorts: bool
) -> tuple[int, str]:
    """Append rows to a stage (a quoted relation); returns how many they are and their content."""
    if not sorts:
        return write_to_stage(session, frame, stage, Shape(tuple(columns)))
    # Rows that Spark sorts by range on its way are seen twice on that way: they are summed up where they are.
    frame.writeTo(stage).append()
    sums = session.table(stage).agg(*build_content_columns(frame.schema)).collect()[0].asDict()
    return int(sums["rows"] or 0), format_content(sums)
