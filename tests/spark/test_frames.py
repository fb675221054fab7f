"""Writing to a stage: every row counted once, whatever the layout; columns, views and rows."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import Observation, SparkSession

from sqb.errors.build import DuplicateColumn
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Column, Shape
from sqb.names import Relation, quote
from sqb.operations.inspect.write_rows import write_rows
from sqb.spark.data import frames
from sqb.spark.data.checksum import Content, build_content_columns, format_content
from sqb.spark.data.frames import analyze, collect_arrow, collect_rows, create_view, list_columns, write_to_stage
from sqb.spark.data.portable import make_portable

RUNS = itertools.count()
ROWS = """
SELECT id, id % 3 AS k, concat('n', id % 10) AS n, TIMESTAMP'2026-01-01' + make_dt_interval(id % 4) AS ts,
       map('a', id) AS m, CAST(id AS DECIMAL(20, 2)) AS d
FROM range(500)
"""
LAYOUTS = {
    "plain": Shape(()),
    "partitioned": Shape((), ("k",)),
    "partitioned by transforms": Shape((), ("days(ts)", "bucket(3, id)", "truncate(100, id)")),
    "sorted": Shape((), (), ("n DESC", "id")),
    "sorted and partitioned": Shape((), ("k",), ("id DESC NULLS LAST",)),
    "sorted and partitioned by transforms": Shape((), ("months(ts)", "bucket(2, n)"), ("id",)),
    "distributed by range": Shape((), ("k",), (), {"write.distribution-mode": "range"}),
    "sorted within files only": Shape((), (), ("id",), {"write.distribution-mode": "none"}),
    "sorted after a hash": Shape((), ("k",), ("id",), {"write.distribution-mode": "hash"}),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("where", ["", "WHERE id < 0"], ids=["rows", "no rows"])
def test_rows_are_counted_once(spark: SparkSession, lake: IcebergLake, layout: Shape, where: str) -> None:
    frame = analyze(spark, ROWS + where)
    shape = Shape(list_columns(frame), layout.partitioned_by, layout.sorted_by, layout.properties)
    stage = lake.stage(Relation("s", "t"), shape, None, f"run{next(RUNS)}")
    name = quote("lake", stage.relation.schema, stage.relation.name)
    rows, content = write_to_stage(spark, frame, name, shape)
    written = spark.table(name)
    again = format_content(written.agg(*build_content_columns(frame.schema)).collect()[0].asDict())
    lake.discard(stage)
    assert (rows, content) == (0 if where else 500, again)


EMPTY = {
    "a filter": "SELECT id, id AS k FROM range(100) WHERE id < 0",
    "never": "SELECT id, id AS k FROM range(100) WHERE false",
    "LIMIT 0": "SELECT id, id AS k FROM range(100) LIMIT 0",
    "a join of nothing": "SELECT a.id, b.id AS k FROM range(999) a JOIN range(0) b ON a.id = b.id",
    "a grouping of nothing": "SELECT id, count(*) AS k FROM range(9) WHERE id < 0 GROUP BY id",
}


@pytest.mark.parametrize("sql", EMPTY.values(), ids=EMPTY.keys())
def test_an_empty_result_has_the_empty_content(spark: SparkSession, lake: IcebergLake, sql: str) -> None:
    frame = analyze(spark, sql)
    shape = Shape(list_columns(frame), ("k",))
    stage = lake.stage(Relation("s", "e"), shape, None, f"run{next(RUNS)}")
    name = quote("lake", stage.relation.schema, stage.relation.name)
    assert write_to_stage(spark, frame, name, shape) == (0, str(Content()))
    lake.discard(stage)


def test_a_report_that_never_comes_is_made_up_for(
    spark: SparkSession, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_SECONDS_TO_REPORT", 0.0)
    monkeypatch.setattr(Observation, "get", property(lambda self: __import__("time").sleep(1)))
    frame = analyze(spark, "SELECT id FROM range(5)")
    shape = Shape(list_columns(frame))
    stage = lake.stage(Relation("s", "u"), shape, None, f"run{next(RUNS)}")
    name = quote("lake", stage.relation.schema, stage.relation.name)
    rows, content = write_to_stage(spark, frame, name, shape)
    lake.discard(stage)
    assert rows == 5
    assert content == format_content(frame.agg(*build_content_columns(frame.schema)).collect()[0].asDict())


def test_columns_are_in_sparks_json(spark: SparkSession) -> None:
    frame = analyze(spark, "SELECT 1L AS id, array('x') AS tags, CAST(1 AS DECIMAL(9, 2)) AS price")
    assert list_columns(frame) == (
        Column("id", "long"),
        Column("tags", {"type": "array", "elementType": "string", "containsNull": False}),
        Column("price", "decimal(9,2)"),
    )


def test_two_columns_with_one_name_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DuplicateColumn, match=r'called ("id", "ID"|"ID", "id")'):
        list_columns(analyze(spark, "SELECT 1 AS id, 2 AS x, 3 AS ID"))


def test_a_view_is_created_with_its_properties_and_replaced(spark: SparkSession) -> None:
    create_view(spark, "`lake`.`s`.`v`", "SELECT 1 AS a, 'it''s' AS b", {"sqb.model": "it's a \\ \n view"})
    assert collect_rows(spark.sql("SELECT * FROM s.v"), 10) == (("a", "b"), [(1, "it's")])
    create_view(spark, "`lake`.`s`.`v`", "SELECT 2 AS a", {"sqb.model": "x"}, [("a", "the 'a'")])
    assert collect_rows(spark.sql("SELECT * FROM s.v"), 10) == (("a",), [(2,)])
    assert ("sqb.model", "x") in collect_rows(spark.sql("SHOW TBLPROPERTIES s.v"), 10)[1]


def test_no_more_rows_than_asked_for(spark: SparkSession) -> None:
    assert collect_rows(spark.sql("SELECT id FROM range(100)"), 3) == (("id",), [(0,), (1,), (2,)])


TYPES = """
SELECT CAST(1.10 AS decimal(38, 10)) AS exact, timestamp_ntz'2026-01-01 12:00:00.123456' AS ntz, NULL AS nothing,
  array() AS no_items, map() AS no_pairs, named_struct('x', array(named_struct('y', NULL))) AS nested,
  interval '3' month AS months, array(interval '1' month) AS list_of_months, make_interval(1, 2, 3) AS interval,
  interval '1' day AS days, parse_json('{"a": [1, null]}') AS json, array(parse_json('1')) AS list_of_json,
  X'00ff' AS raw, map('k', NULL) AS pairs, 1 AS twice, 2 AS twice
"""


def test_values_of_every_type_leave_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(TYPES)
    columns, ((*_, days, json_text, json_list, _, pairs, _, _),) = collect_rows(make_portable(frame, False), 1)
    assert columns[-2:] == ("twice", "twice")
    assert (days, json_text, json_list, pairs) == (timedelta(days=1), '{"a":[1,null]}', "[1]", {"k": None})
    table = collect_arrow(make_portable(frame, True), None)
    write_rows(table, tmp_path / "types.parquet")
    (row,) = parquet.read_table(tmp_path / "types.parquet").to_pylist()
    assert row == {
        "exact": Decimal("1.1000000000"),
        "ntz": datetime(2026, 1, 1, 12, 0, 0, 123456),
        "nothing": None,
        "no_items": [],
        "no_pairs": [],
        "nested": {"x": [{"y": None}]},
        "months": "INTERVAL '3' MONTH",
        "list_of_months": ["INTERVAL '1' MONTH"],
        "interval": "1 years 2 months 21 days",
        "days": "INTERVAL '1' DAY",
        "json": '{"a":[1,null]}',
        "list_of_json": "[1]",
        "raw": b"\x00\xff",
        "pairs": [("k", None)],
        "twice": 1,
        "twice_1": 2,
    }
    again = spark.read.parquet(str(tmp_path / "types.parquet"))
    assert again.count() == 1 and len(again.columns) == 16
    plain = spark.sql("SELECT 1 AS a, 2 AS a")
    assert make_portable(plain, True) is plain
