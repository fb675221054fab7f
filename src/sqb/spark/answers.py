"""One value from Spark, as plain text: what a question about the freshness of a source is answered with."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DecimalType, IntegralType, TimestampNTZType, TimestampType

from sqb.names import quote

_MANY = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that came, two at most: microseconds since 1970 for times, texts for everything else."""

    type: str
    kind: str
    columns: int
    values: tuple[str | int | None, ...]


def ask(session: SparkSession, sql: str) -> Answer:
    """Run a query whose answer should be one row with one column."""
    frame = session.sql(sql)
    if len(frame.columns) != 1:
        return Answer("", "", len(frame.columns), ())
    field = frame.schema[0]
    name = quote(field.name)
    plain = frame.toDF("c")
    match field.dataType:
        case TimestampType():
            kind, value = "timestamp", F.expr("unix_micros(c)")
        case TimestampNTZType():
            kind, value = "timestamp", F.expr("timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', c)")
        case DateType():
            kind, value = "timestamp", F.expr("unix_date(c) * 86400000000L")
        case IntegralType():
            kind, value = "integer", F.col("c").cast("string")
        case DecimalType() if field.dataType.scale == 0:
            kind, value = "integer", F.col("c").cast("string")
        case _:
            kind, value = "string", F.col("c").cast("string")
    rows = plain.select(value.alias("c")).limit(_MANY).collect()
    return Answer(f"{field.dataType.simpleString()} {name}", kind, 1, tuple(row[0] for row in rows))
