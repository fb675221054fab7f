"""Queries as DataFrames: their columns, writing them to a stage with their content summed up, views, rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StructType, TimestampNTZType, TimestampType

from sqb.errors.build import DuplicateColumn
from sqb.lake.port import Column, Shape
from sqb.names import quote
from sqb.project.models.partitioning import parse_partition, parse_sort
from sqb.spark.data.checksum import PART, build_content_columns, format_content, observe_content, select_fields
from sqb.spark.data.column_types import list_types
from sqb.types.format import format_sql_type
from sqb.types.model import Type
from sqb.types.spark_json import from_json_type
from sqb.types.values import to_collected_type

_SECONDS_TO_REPORT = 10.0
# The number of rows, their content, and that of some of their columns.
WrittenContent = tuple[int, str, str]


def analyze(session: SparkSession, sql: str) -> DataFrame:
    """The query, checked against the catalog but not run."""
    return session.sql(sql)


def analyze_or_none(session: SparkSession, sql: str) -> DataFrame | None:
    """The query, or None when it does not fit the tables that it reads."""
    try:
        return session.sql(sql)
    except AnalysisException:
        return None


def predict_columns(session: SparkSession, sql: str) -> dict[str, Type] | None:
    """The columns that a query will give, with their types; None when it does not fit."""
    frame = analyze_or_none(session, sql)
    return dict(list_types(frame)) if frame is not None else None


def list_columns(frame: DataFrame) -> tuple[Column, ...]:
    """The columns of a query's result; two with one name are refused, as no table could hold them."""
    fields = frame.schema.jsonValue()["fields"]
    counts = Counter(field["name"].lower() for field in fields)
    if max(counts.values(), default=0) > 1:
        duplicates = sorted({field["name"] for field in fields if counts[field["name"].lower()] > 1}, key=str.lower)
        names = ", ".join(f'"{name}"' for name in duplicates)
        raise DuplicateColumn(
            f"the query's result has more than one column called {names}",
            hint="give each its own name with AS; names that differ only in case are the same",
        )
    return tuple(Column(field["name"], field["type"]) for field in fields)


def write_to_stage(session: SparkSession, frame: DataFrame, stage: str, shape: Shape) -> tuple[int, str]:
    """Append a query's result to a stage (a quoted relation); returns the number of rows and their content."""
    return write_and_compare(session, frame, stage, shape, None)[:2]


def append_to_stage(frame: DataFrame, stage: str) -> None:
    """Append rows to a stage (a quoted relation) that has no order, without summing them up."""
    frame.writeTo(stage).append()


def write_and_compare(
    session: SparkSession, frame: DataFrame, stage: str, shape: Shape, part: Sequence[str] | None
) -> WrittenContent:
    """Append a query's result to a stage; returns the number of rows, their content, and that of some columns."""
    observation = Observation()
    if _is_sorted_by_range(shape):
        # Spark samples the rows before it sorts by range, which would count them twice: the count stands above.
        rows = observe_content(frame.sort(*_iter_sort_columns(shape)), observation, part)
        writer = rows.writeTo(stage).option("use-table-distribution-and-ordering", "false")
        writer.option("fanout-enabled", "true").append()
    else:
        observe_content(frame, observation, part).writeTo(stage).append()
    return read_content(observation, lambda: session.table(stage), frame.schema, part)


def read_content(
    observation: Observation, read_rows: Callable[[], DataFrame], schema: StructType, part: Sequence[str] | None
) -> WrittenContent:
    """What was observed of rows; where that is lost they are read once more."""
    observed = wait_for_observation(observation)
    if observed is None:
        sums = build_content_columns(schema)
        if part is not None:
            sums += build_content_columns(select_fields(schema, part), PART)
        observed = read_rows().agg(*sums).collect()[0].asDict()
    return (
        int(observed["rows"] or 0),
        format_content(observed),
        format_content(observed, PART) if part is not None else "",
    )


def compute_part_contents(session: SparkSession, relation: str, parts: Sequence[Sequence[str]]) -> list[str]:
    """The contents of a relation (as SQL names it) in some of its columns at a time, in one pass."""
    frame = session.sql(f"SELECT * FROM {relation}")
    sums = [
        s for i, part in enumerate(parts) for s in build_content_columns(select_fields(frame.schema, part), f"p{i}_")
    ]
    observed = frame.agg(*sums).collect()[0].asDict()
    return [format_content(observed, f"p{i}_") for i in range(len(parts))]


def create_view(
    session: SparkSession,
    relation: str,
    sql: str,
    properties: Mapping[str, str],
    comments: Sequence[tuple[str, str | None]] = (),
) -> None:
    """Create or replace a view (a quoted relation); `comments` names every column, or none."""
    listed = ", ".join(quote(name) + (f" COMMENT {_quote_literal(text)}" if text else "") for name, text in comments)
    pairs = ", ".join(f"{_quote_literal(key)} = {_quote_literal(value)}" for key, value in properties.items())
    statement = [f"CREATE OR REPLACE VIEW {relation}"]
    if listed:
        statement.append(f"({listed})")
    if pairs:
        statement.append(f"TBLPROPERTIES ({pairs})")
    session.sql("\n".join([*statement, f"AS {sql}"]))


def set_view_properties(session: SparkSession, relation: str, properties: Mapping[str, str]) -> None:
    """Set properties of a view (a quoted relation)."""
    pairs = ", ".join(f"{_quote_literal(key)} = {_quote_literal(value)}" for key, value in properties.items())
    session.sql(f"ALTER VIEW {relation} SET TBLPROPERTIES ({pairs})")


def build_table_after(
    session: SparkSession,
    table: str,
    snapshot_id: int,
    removed_files: Collection[str],
    stage: str,
    columns: Sequence[Column],
) -> DataFrame:
    """The rows that a table would have if a stage took the place of some of its files."""
    remaining = session.sql(f"SELECT *, _file AS __sqb_file FROM {table} VERSION AS OF {snapshot_id}")
    if removed_files:
        remaining = remaining.where(~F.col("__sqb_file").isin(list(removed_files)))
    return select_columns(remaining, columns).unionAll(select_columns(session.table(stage), columns))


def collect_rows(frame: DataFrame, limit: int | None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The names of the columns and at most `limit` rows of a result."""
    limited = frame.limit(limit) if limit is not None else frame
    return tuple(frame.columns), [tuple(row) for row in limited.collect()]


def collect_arrow(frame: DataFrame, limit: int | None) -> Any:
    """At most `limit` rows of a result, as an Arrow table."""
    return (frame.limit(limit) if limit is not None else frame).toArrow()


def _is_sorted_by_range(shape: Shape) -> bool:
    mode = shape.properties.get("write.distribution-mode")
    return mode == "range" or (mode is None and bool(shape.sorted_by))


def _iter_sort_columns(shape: Shape) -> Iterator[SparkColumn]:
    """What to sort by: the parts of the partition, then the columns that were asked for."""
    for text in shape.partitioned_by:
        partition = parse_partition(text)
        if partition is not None:
            yield _build_partition_value(partition.transform, F.col(quote(partition.column)))
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


def _build_partition_value(transform: str, column: SparkColumn) -> SparkColumn:
    name, _, size = transform.removesuffix("]").partition("[")
    match name:
        case "identity":
            return column
        case "bucket" | "truncate":
            return F.call_function(f"system.{name}", F.lit(int(size)), column)
        case _:
            return F.call_function(f"system.{name}s", column)


def wait_for_observation(observation: Observation) -> Mapping[str, Any] | None:
    """What was observed, or None when there is no report.

    When everything turns out to be empty on the way, Spark may drop the part of the plan that observes: then the report
    is broken. And it is delivered by a queue that may lose it: then asking for it would wait for ever.
    """
    answers: list[Mapping[str, Any]] = []

    def fetch() -> None:
        with suppress(Exception):
            answers.append(observation.get)

    fetcher = threading.Thread(target=fetch, name="sqb-observe", daemon=True)
    fetcher.start()
    fetcher.join(_SECONDS_TO_REPORT)
    # Spark Connect answers with nothing where there is no report.
    return answers[0] if answers and answers[0] else None


def _quote_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def select_columns(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The frame with exactly these columns, in this order: one that it lacks is NULL, a narrower one is widened."""
    present = {name.lower(): name for name in frame.columns}
    selected = []
    for column in columns:
        kind = _parse_data_type(column.type)
        present_name = present.get(column.name.lower())
        value = F.col(quote(present_name)) if present_name is not None else F.lit(None)
        selected.append(value.cast(kind).alias(column.name))
    return frame.select(*selected)


def has_same_columns(left: Sequence[Column], right: Sequence[Column]) -> bool:
    """Whether two lists of columns have the same names and types; whether parts may be NULL does not matter."""

    return [(c.name, from_json_type(c.type)) for c in left] == [(c.name, from_json_type(c.type)) for c in right]


def _parse_data_type(kind: Any) -> DataType:
    """A type in Spark's JSON notation."""
    return StructType.fromJson({"fields": [{"name": "c", "type": kind, "nullable": True, "metadata": {}}]})[0].dataType


def drop_view(session: SparkSession, name: str) -> None:
    """Drop a view that all sessions know; a missing view is ignored."""
    session.catalog.dropGlobalTempView(name)


# Compiling a query and spreading it over tasks takes longer than running it over a few rows.
_SMALL_QUERY_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def list_result_columns(session: SparkSession, sql: str) -> list[tuple[str, Type]]:
    """The columns of a query's result with their types; the query is not run."""
    return list_types(session.sql(sql))


def query_small_result(
    session: SparkSession, sql: str, limit: int
) -> tuple[list[tuple[str, Type]], list[tuple[Any, ...]]]:
    """The columns of a query's result with their types, and at most `limit` rows with values of collected types."""
    frame = session.sql(sql)
    columns = list_types(frame)
    # Two columns may have one name, so that they are told apart by their places.
    numbered = frame.toDF(*(f"c{i}" for i in range(len(columns))))
    plain = [
        F.col(f"c{i}")
        if to_collected_type(kind) == kind
        else F.col(f"c{i}").cast(format_sql_type(to_collected_type(kind)))
        for i, (_, kind) in enumerate(columns)
    ]
    return columns, [tuple(row) for row in numbered.select(*plain).limit(limit).collect()]


def get_time_zone(session: SparkSession) -> str:
    """The zone in which the session reads and shows times."""
    return session.conf.get("spark.sql.session.timeZone") or "UTC"


@contextmanager
def use_small_query_conf(session: SparkSession) -> Iterator[None]:
    """Let a session run queries over few rows quickly for a while."""
    before = {key: session.conf.get(key, None) for key in _SMALL_QUERY_CONF}
    for key, value in _SMALL_QUERY_CONF.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


_MAX_ROWS = 2


@dataclass(frozen=True, slots=True)
class ScalarAnswer:
    """The rows that came, two at most: microseconds since 1970 for times, texts for everything else."""

    type: str
    kind: str
    columns: int
    values: tuple[str | int | None, ...]


def query_scalar(session: SparkSession, sql: str) -> ScalarAnswer:
    """Run a query whose answer should be one row with one column."""
    frame = session.sql(sql)
    if len(frame.columns) != 1:
        return ScalarAnswer("", "", len(frame.columns), ())
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
    rows = plain.select(value.alias("c")).limit(_MAX_ROWS).collect()
    return ScalarAnswer(f"{field.dataType.simpleString()} {name}", kind, 1, tuple(row[0] for row in rows))
