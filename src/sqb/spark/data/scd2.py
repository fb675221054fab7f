"""Rows with a time in which they were true."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, expand_rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_rows(frame: DataFrame, now: datetime) -> DataFrame:
    """Rows that are true from now on."""
    moment = F.lit(now).cast("timestamp")
    return frame.select(
        "*",
        moment.alias("valid_from"),
        F.lit(None).cast("timestamp").alias("valid_to"),
        F.lit(True).alias("is_current"),
    )


def compute_run_time(history: DataFrame, now: datetime) -> datetime:
    """The moment of a run: that of the clock, but never before the last one in the history."""
    last = F.greatest(F.max("valid_from"), F.max("valid_to"))
    row = history.agg(F.unix_micros(last).alias("last")).collect()[0]
    moment = _EPOCH + timedelta(microseconds=row["last"]) if row["last"] is not None else now
    return max(now, moment)


def build_history_change(
    history: DataFrame, change: DataFrame, columns: Sequence[str], key: Sequence[str], now: datetime
) -> DataFrame:
    """What a change of the result does to its history: removed current rows are closed, added rows are opened.

    A key has one current row, which identifies the removed row; other columns may be of types that cannot be compared.
    """
    removed = change.where(F.col(MULTIPLICITY) < 0)
    current = history.where("is_current")
    same = reduce(Column.__and__, [current[quote(c)].eqNullSafe(removed[quote(c)]) for c in key])
    ending = current.join(F.broadcast(removed), same, "left_semi")
    closed = ending.withColumn("valid_to", F.lit(now).cast("timestamp")).withColumn("is_current", F.lit(False))
    names = [quote(c) for c in history.columns]
    counted_once = F.lit(1).cast("bigint").alias(MULTIPLICITY)
    parts = [
        ending.select(*names, F.lit(-1).cast("bigint").alias(MULTIPLICITY)),
        closed.select(*names, counted_once),
        open_rows(expand_rows(change, 1, columns), now).select(*names, counted_once),
    ]
    return reduce(DataFrame.unionAll, parts)
