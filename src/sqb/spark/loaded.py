"""DataFrames of loaders: their columns, and the same values in a table's types, exactly or refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.errors import RowsUnfit
from sqb.lake.port import Column as TableColumn
from sqb.lake.port import Shape
from sqb.lake.row_types import is_number, shown_type, without_small
from sqb.names import quote
from sqb.project.column_types import Type, spark_json_type, type_text
from sqb.spark.checksum import content_columns, content_of
from sqb.spark.frames import write_to_stage

_MARK = "sqb: a value does not fit: "
_MARKED = re.compile(re.escape(_MARK) + r"(.*?)\u2063", re.DOTALL)
_END = "\u2063"
_TEXTS = ("boolean", "int", "bigint", "date")
_MOMENTS = {("date", "timestamp"), ("date", "timestamp_ntz"), ("timestamp_ntz", "timestamp")}


def types_of(frame: DataFrame) -> list[tuple[str, Type]]:
    """The columns of a frame with their types; names may be there twice."""
    return [(f["name"], without_small(spark_json_type(f["type"]))) for f in frame.schema.jsonValue()["fields"]]


def fitted(frame: DataFrame, columns: Sequence[tuple[str, str, Type]]) -> DataFrame:
    """The rows with exactly these columns: the name that each has in the frame ("" for none), its own, and its type."""
    found = dict(types_of(frame))
    chosen = []
    for written, name, kind in columns:
        value = F.col(quote(written)) if written else F.lit(None)
        chosen.append(_fitted(value, found.get(written, "void"), kind, name).alias(name))
    return frame.select(*chosen)


def _fitted(value: Column, found: Type, kind: Type, name: str) -> Column:
    match found, kind:
        case _ if found == kind:
            # Small whole numbers are one type in a table.
            return value.cast("int") if kind == "int" else value
        case "void", _:
            return value.cast(type_text(kind))
        case ("array", inner), ("array", wanted):
            return F.transform(value, lambda item: _fitted(item, inner, wanted, name))
        case ("map", key, inner), ("map", wanted_key, wanted):
            entries = F.transform(
                F.map_entries(value),
                lambda e: F.struct(
                    _fitted(e.getField("key"), key, wanted_key, name),
                    _fitted(e.getField("value"), inner, wanted, name),
                ),
            )
            return F.map_from_entries(entries)
        case ("struct", fields), ("struct", wanted):
            return _fitted_struct(value, fields, wanted, name)
        case str(), str() if _may_become(found, kind):
            return _checked(value, found, kind, name)
        case _:
            raise RowsUnfit(
                f'column "{name}" is {shown_type(kind)}, and its rows of type {shown_type(found)} do not fit',
                hint="give the column another type in the loader's columns=, or cast it",
            )


def _fitted_struct(value: Column, fields: Any, wanted: Any, name: str) -> Column:
    present = {n.lower(): (n, part) for n, part in fields}
    parts = []
    for field, kind in wanted:
        found, part = present.get(field.lower(), ("", "void"))
        inner = value.getField(found) if found else F.lit(None)
        parts.append(_fitted(inner, part, kind, f"{name}.{field}").alias(field))
    return F.when(value.isNotNull(), F.struct(*parts))


def _may_become(found: str, kind: str) -> bool:
    if is_number(found) and is_number(kind):
        return True
    if found == "string":
        return kind != "binary"
    if kind == "string":
        return found in _TEXTS or found.startswith("decimal(")
    return (found, kind) in _MOMENTS or (kind == "date" and found.startswith("timestamp"))


def _checked(value: Column, found: str, kind: str, name: str) -> Column:
    """A value in another type, or an error if it would be another value."""
    made = value.try_cast(type_text(kind))
    fits = made.isNotNull()
    if (found, kind) == ("double", "float"):
        # Who asks for floats of doubles asks for rounding, but not for infinity.
        fits = fits & ((F.abs(made) != float("inf")) | (F.abs(value) == float("inf")))
    elif found != "string" and kind != "string":
        fits = fits & made.try_cast(type_text(found)).eqNullSafe(value)
    said = f'column "{name}" is {shown_type(kind)}, and its rows of type {shown_type(found)} do not fit; one value is '
    error = F.raise_error(F.concat(F.lit(_MARK + said), value.cast("string"), F.lit(_END))).cast(type_text(kind))
    return F.when(value.isNull() | fits, made).otherwise(error)


def unfit(error: BaseException) -> RowsUnfit | None:
    """What a value that did not fit made Spark say, as an error of ours; None when it failed for another reason."""
    found = _MARKED.search(str(error))
    if found is None:
        return None
    return RowsUnfit(found[1], hint="give the column another type in the loader's columns=, or change the values")


def write(
    session: SparkSession, frame: DataFrame, stage: str, columns: Sequence[TableColumn], sorts: bool
) -> tuple[int, str]:
    """Append rows to a stage (a quoted relation); returns how many they are and their content."""
    if not sorts:
        return write_to_stage(session, frame, stage, Shape(tuple(columns)))
    # Rows that Spark sorts by range on its way are seen twice on that way: they are summed up where they are.
    frame.writeTo(stage).append()
    found = session.table(stage).agg(*content_columns(frame.schema)).collect()[0].asDict()
    return int(found["rows"] or 0), content_of(found)
