"""Cursors of results: what type a column has, how far it reaches, and the rows of a window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.project.cursors import DAY, Form, literal, point
from sqb.spark.changes import TIMES
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
    return _point(row[0], form), _point(row[1], form)


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


def _point(value: int | str | None, form: Form) -> int | None:
    match value:
        case None:
            return None
        case str():
            return point(value, form, UTC)
        case _:
            return value * DAY if form == "date" else value


def largest_moved(change: DataFrame, column: str, form: Form) -> tuple[int | None, int | None]:
    """The largest value among the rows that a change brings, and among those that it takes."""
    value, times = F.col(quote(column)), F.col(TIMES)
    found = change.agg(F.max(F.when(times > 0, value)).alias("came"), F.max(F.when(times < 0, value)).alias("went"))
    row = found.select(_number(F.col("came"), form), _number(F.col("went"), form)).collect()[0]
    return _point(row[0], form), _point(row[1], form)


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
