"""Small results, as plain values: what unit tests compare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sqb.project.column_types import Type, plain_type, spark_json_type, type_text

# Compiling a query and spreading it over tasks takes longer than running it over a few rows.
_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def result_columns(session: SparkSession, sql: str) -> list[tuple[str, Type]]:
    """The columns of a query's result with their types; the query is not run."""
    return [(f["name"], spark_json_type(f["type"])) for f in session.sql(sql).schema.jsonValue()["fields"]]


def small_result(session: SparkSession, sql: str, limit: int) -> tuple[list[tuple[str, Type]], list[tuple[Any, ...]]]:
    """The columns of a query's result with their types, and at most `limit` rows, each value as its `plain_type`."""
    frame = session.sql(sql)
    columns = [(f["name"], spark_json_type(f["type"])) for f in frame.schema.jsonValue()["fields"]]
    # Two columns may have one name, so that they are told apart by their places.
    numbered = frame.toDF(*(f"c{i}" for i in range(len(columns))))
    plain = [
        F.col(f"c{i}") if plain_type(kind) == kind else F.col(f"c{i}").cast(type_text(plain_type(kind)))
        for i, (_, kind) in enumerate(columns)
    ]
    return columns, [tuple(row) for row in numbered.select(*plain).limit(limit).collect()]


def time_zone(session: SparkSession) -> str:
    """The zone in which the session reads and shows times."""
    return session.conf.get("spark.sql.session.timeZone") or "UTC"


@contextmanager
def for_few_rows(session: SparkSession) -> Iterator[None]:
    """Let a session run queries over few rows quickly for a while."""
    before = {key: session.conf.get(key, None) for key in _FOR_FEW_ROWS}
    for key, value in _FOR_FEW_ROWS.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)
