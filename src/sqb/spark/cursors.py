"""Cursors of results: what type a column has, how far it reaches, and the rows of a window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.project.cursors import DAY, Form, literal, point
from sqb.spark.changes import TIMES
from sqb.spark.checksum import Content, content_columns, content_from_sums
from sqb.spark.frames import reported

_FORMS: dict[str, Form] = {
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "date": "date",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
}


def form_of(frame: DataFrame, column: str) -> tuple[Form | None, str]:
    """What a column can be as a cursor, None when it cannot be one, and the name of its type."""
    kind = next(kind for name, kind in frame.dtypes if name.lower() == column.lower())
    return _FORMS.get(kind), kind


def reach(frame: DataFrame, column: str, form: Form) -> tuple[int | None, int | None]:
    """The smallest and the largest value of a column, as points of a cursor; None when there is none."""
    value = F.col(quote(column))
    found = frame.agg(F.min(value).alias("low"), F.max(value).alias("high"))
    row = found.select(_number(F.col("low"), form), _number(F.col("high"), form)).collect()[0]
    return point_of(row[0], form), point_of(row[1], form)


def _number(value: Column, form: Form) -> Column:
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


def survey(frame: DataFrame, column: str, form: Form) -> tuple[int | None, Content]:
    """The largest value of a column, as a point of a cursor, and the content of the rows, in one pass."""
    largest = F.max(F.col(quote(column))).alias("largest")
    found = frame.agg(*content_columns(frame.schema), largest).withColumn("largest", _number(F.col("largest"), form))
    row = found.collect()[0].asDict()
    return point_of(row["largest"], form), content_from_sums(row)


def largest_moved(column: str, form: Form) -> list[Column]:
    """What to ask of a change: the largest value among the rows that come, and among those that go."""
    value, times = F.col(quote(column)), F.col(TIMES)
    came, went = (F.max(F.when(condition, value)) for condition in (times > 0, times < 0))
    return [_number(came, form).alias("largest_came"), _number(went, form).alias("largest_went")]


def point_of(value: int | str | None, form: Form) -> int | None:
    """The point in an answer."""
    match value:
        case None:
            return None
        case str():
            return point(value, form, UTC)
        case _:
            return value * DAY if form == "date" else value


def inside(column: str, form: Form, start: int | None, end: int | None) -> Column:
    """Whether a row is in the window `[start, end)`; one without a value is in none."""
    value = F.col(quote(column))
    condition = value.isNotNull()
    if start is not None:
        condition = condition & (value >= F.expr(literal(start, form)))
    if end is not None:
        condition = condition & (value < F.expr(literal(end, form)))
    return condition


def counting_nulls(frame: DataFrame, column: str) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and in how many of them a column is NULL once they have been written."""
    observation = Observation()
    counted = frame.observe(observation, F.count(F.when(F.col(quote(column)).isNull(), 1)).alias("nulls"))
    return counted, lambda: int((reported(observation) or {}).get("nulls") or 0)
