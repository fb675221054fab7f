"""Queries as DataFrames: their columns, writing them to a stage with their content summed up, views, rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from sqb.errors import DuplicateColumn
from sqb.lake.port import Column, Shape
from sqb.names import quote
from sqb.project.column_types import spark_json_type, type_text
from sqb.project.layout import parse_partition, parse_sort
from sqb.spark.checksum import PART, content_columns, content_of, observe_content, part_of

_SECONDS_TO_REPORT = 10.0


def analyse(session: SparkSession, sql: str) -> DataFrame:
    """The query, checked against the catalog but not run."""
    return session.sql(sql)


def analysed(session: SparkSession, sql: str) -> DataFrame | None:
    """The query, or None when it does not fit the tables that it reads."""
    try:
        return session.sql(sql)
    except AnalysisException:
        return None


def columns_ahead(session: SparkSession, sql: str) -> dict[str, str] | None:
    """The columns that a query will give, with their types as SQL writes them; None when it does not fit."""
    frame = analysed(session, sql)
    if frame is None:
        return None
    return {f["name"]: type_text(spark_json_type(f["type"])) for f in frame.schema.jsonValue()["fields"]}


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    """The columns of a query's result; two with one name are refused, as no table could hold them."""
    fields = frame.schema.jsonValue()["fields"]
    counts = Counter(field["name"].lower() for field in fields)
    if max(counts.values(), default=0) > 1:
        twice = sorted({field["name"] for field in fields if counts[field["name"].lower()] > 1}, key=str.lower)
        names = ", ".join(f'"{name}"' for name in twice)
        raise DuplicateColumn(
            f"the query's result has more than one column called {names}",
            hint="give each its own name with AS; names that differ only in case are the same",
        )
    return tuple(Column(field["name"], field["type"]) for field in fields)


def write_to_stage(session: SparkSession, frame: DataFrame, stage: str, shape: Shape) -> tuple[int, str]:
    """Append a query's result to a stage (a quoted relation); returns the number of rows and their content."""
    return write_and_compare(session, frame, stage, shape, None)[:2]


def write_and_compare(
    session: SparkSession, frame: DataFrame, stage: str, shape: Shape, part: Sequence[str] | None
) -> tuple[int, str, str]:
    """Append a query's result to a stage; returns the number of rows, their content, and that of some columns."""
    observation = Observation()
    if _sorts_by_range(shape):
        # Spark samples the rows before it sorts by range, which would count them twice: the count stands above.
        rows = observe_content(frame.sort(*_order(shape)), observation, part)
        writer = rows.writeTo(stage).option("use-table-distribution-and-ordering", "false")
        writer.option("fanout-enabled", "true").append()
    else:
        observe_content(frame, observation, part).writeTo(stage).append()
    observed = reported(observation)
    if observed is None:
        sums = content_columns(frame.schema)
        if part is not None:
            sums += content_columns(part_of(frame.schema, part), PART)
        observed = session.table(stage).agg(*sums).collect()[0].asDict()
    return int(observed["rows"] or 0), content_of(observed), content_of(observed, PART) if part is not None else ""


def contents_of_parts(session: SparkSession, relation: str, parts: Sequence[Sequence[str]]) -> list[str]:
    """The contents of a relation (as SQL names it) in some of its columns at a time, in one pass."""
    frame = session.sql(f"SELECT * FROM {relation}")
    sums = [s for i, part in enumerate(parts) for s in content_columns(part_of(frame.schema, part), f"p{i}_")]
    observed = frame.agg(*sums).collect()[0].asDict()
    return [content_of(observed, f"p{i}_") for i in range(len(parts))]


def create_view(
    session: SparkSession,
    relation: str,
    sql: str,
    properties: Mapping[str, str],
    comments: Sequence[tuple[str, str | None]] = (),
) -> None:
    """Create or replace a view (a quoted relation); `comments` names every column, or none."""
    listed = ", ".join(quote(name) + (f" COMMENT {_literal(text)}" if text else "") for name, text in comments)
    pairs = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
    statement = [f"CREATE OR REPLACE VIEW {relation}"]
    if listed:
        statement.append(f"({listed})")
    if pairs:
        statement.append(f"TBLPROPERTIES ({pairs})")
    session.sql("\n".join([*statement, f"AS {sql}"]))


def set_view_properties(session: SparkSession, relation: str, properties: Mapping[str, str]) -> None:
    """Set properties of a view (a quoted relation)."""
    pairs = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
    session.sql(f"ALTER VIEW {relation} SET TBLPROPERTIES ({pairs})")


def would_be(
    session: SparkSession, table: str, snapshot_id: int, gone: Collection[str], stage: str, columns: Sequence[Column]
) -> DataFrame:
    """The rows that a table would have if a stage took the place of some of its files."""
    there = session.sql(f"SELECT *, _file AS __sqb_file FROM {table} VERSION AS OF {snapshot_id}")
    if gone:
        there = there.where(~F.col("__sqb_file").isin(list(gone)))
    return with_columns(there, columns).unionAll(with_columns(session.table(stage), columns))


def query_rows(session: SparkSession, sql: str, limit: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The names of the columns and at most `limit` rows of a query's result."""
    frame = session.sql(sql)
    return tuple(frame.columns), [tuple(row) for row in frame.limit(limit).collect()]


def _sorts_by_range(shape: Shape) -> bool:
    mode = shape.properties.get("write.distribution-mode")
    return mode == "range" or (mode is None and bool(shape.sorted_by))


def _order(shape: Shape) -> Iterator[SparkColumn]:
    """What to sort by: the parts of the partition, then the columns that were asked for."""
    for text in shape.partitioned_by:
        partition = parse_partition(text)
        if partition is not None:
            yield _partition_value(partition.transform, F.col(quote(partition.column)))
    for text in shape.sorted_by:
        field = parse_sort(text)
        if field is not None:
            column = F.col(quote(field.column))
            match field.descending, field.nulls_first:
                case True, True:
                    yield column.desc_nulls_first()
                case True, False:
                    yield column.desc_nulls_last()
                case False, True:
                    yield column.asc_nulls_first()
                case _:
                    yield column.asc_nulls_last()


def _partition_value(transform: str, column: SparkColumn) -> SparkColumn:
    name, _, size = transform.removesuffix("]").partition("[")
    match name:
        case "identity":
            return column
        case "bucket" | "truncate":
            return F.call_function(f"system.{name}", F.lit(int(size)), column)
        case _:
            return F.call_function(f"system.{name}s", column)


def reported(observation: Observation) -> Mapping[str, Any] | None:
    """What was observed, or None when there is no report.

    When everything turns out to be empty on the way, Spark may drop the part of the plan that observes: then the report
    is broken. And it is delivered by a queue that may lose it: then asking for it would wait for ever.
    """
    answers: list[Mapping[str, Any]] = []

    def ask() -> None:
        with suppress(Exception):
            answers.append(observation.get)

    asker = threading.Thread(target=ask, name="sqb-observe", daemon=True)
    asker.start()
    asker.join(_SECONDS_TO_REPORT)
    # Spark Connect answers with nothing where there is no report.
    return answers[0] if answers and answers[0] else None


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def with_columns(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The frame with exactly these columns, in this order: one that it lacks is NULL, a narrower one is widened."""
    present = {name.lower(): name for name in frame.columns}
    chosen = []
    for column in columns:
        kind = _data_type(column.type)
        found = present.get(column.name.lower())
        value = F.col(quote(found)) if found is not None else F.lit(None)
        chosen.append(value.cast(kind).alias(column.name))
    return frame.select(*chosen)


def same_columns(one: Sequence[Column], other: Sequence[Column]) -> bool:
    """Whether two lists of columns have the same names and types; whether parts may be NULL does not matter."""

    def plain(columns: Sequence[Column]) -> list[tuple[str, str]]:
        return [(c.name, _data_type(c.type).simpleString()) for c in columns]

    return plain(one) == plain(other)


def _data_type(kind: Any) -> DataType:
    """A type in Spark's JSON notation."""
    return StructType.fromJson({"fields": [{"name": "c", "type": kind, "nullable": True, "metadata": {}}]})[0].dataType


def forget_view(session: SparkSession, name: str) -> None:
    """Drop a view that all sessions know; it is no matter if it is gone."""
    session.catalog.dropGlobalTempView(name)
