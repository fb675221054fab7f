"""Cursors of results: what type a column has, how far it reaches, and the rows of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.project.models.cursor import DAY, Form, format_literal, parse_point
from sqb.spark.data.changes import MULTIPLICITY
from sqb.spark.data.checksum import Content, build_content_columns, parse_content_sums
from sqb.spark.data.column_types import list_types
from sqb.spark.data.frames import wait_for_observation
from sqb.types import model as m
from sqb.types.model import Type

_FORMS: Mapping[Type, Form] = {
    m.TIMESTAMP: "timestamp",
    m.TIMESTAMP_NTZ: "timestamp_ntz",
    m.DATE: "date",
    **dict.fromkeys(m.INTEGER_BITS, "integer"),
}


def find_cursor_form(frame: DataFrame, column: str) -> tuple[Form | None, str]:
    """What a column can be as a cursor, None when it cannot be one, and the name of its type."""
    kind = next(kind for name, kind in list_types(frame) if name.lower() == column.lower())
    return _FORMS.get(kind), str(kind)


def compute_range(frame: DataFrame, column: str, form: Form) -> tuple[int | None, int | None]:
    """The smallest and the largest value of a column, as points of a cursor; None when there is none."""
    value = F.col(quote(column))
    bounds = frame.agg(F.min(value).alias("low"), F.max(value).alias("high"))
    row = bounds.select(_encode_point(F.col("low"), form), _encode_point(F.col("high"), form)).collect()[0]
    return decode_point(row[0], form), decode_point(row[1], form)


def _encode_point(value: Column, form: Form) -> Column:
    match form:
        case "timestamp":
            return F.unix_micros(value)
        case "date":
            return F.unix_date(value)
        case "timestamp_ntz":
            # As text: every number of a time without a zone would be one of some zone.
            return value.cast("string")
        case _:
            return value.cast("bigint")


def compute_largest_and_content(frame: DataFrame, column: str, form: Form) -> tuple[int | None, Content]:
    """The largest value of a column, as a point of a cursor, and the content of the rows, in one pass."""
    largest = F.max(F.col(quote(column))).alias("largest")
    aggregates = frame.agg(*build_content_columns(frame.schema), largest).withColumn(
        "largest", _encode_point(F.col("largest"), form)
    )
    row = aggregates.collect()[0].asDict()
    return decode_point(row["largest"], form), parse_content_sums(row)


def build_largest_columns(column: str, form: Form) -> list[Column]:
    """What to ask of a change: the largest value among the added rows, and among the removed rows."""
    value, times = F.col(quote(column)), F.col(MULTIPLICITY)
    added, removed = (F.max(F.when(condition, value)) for condition in (times > 0, times < 0))
    return [_encode_point(added, form).alias("largest_added"), _encode_point(removed, form).alias("largest_removed")]


def decode_point(value: int | str | None, form: Form) -> int | None:
    """The point in an answer."""
    match value:
        case None:
            return None
        case str():
            return parse_point(value, form, UTC)
        case _:
            return value * DAY if form == "date" else value


def build_window_condition(column: str, form: Form, start: int | None, end: int | None) -> Column:
    """Whether a row is in the window `[start, end)`; one without a value is in none."""
    value = F.col(quote(column))
    condition = value.isNotNull()
    if start is not None:
        condition = condition & (value >= F.expr(format_literal(start, form)))
    if end is not None:
        condition = condition & (value < F.expr(format_literal(end, form)))
    return condition


def observe_nulls(frame: DataFrame, column: str) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and in how many of them a column is NULL once they have been written."""
    observation = Observation()
    counted = frame.observe(observation, F.count(F.when(F.col(quote(column)).isNull(), 1)).alias("nulls"))
    return counted, lambda: int((wait_for_observation(observation) or {}).get("nulls") or 0)
