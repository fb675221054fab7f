"""The content of rows: equal for equal multisets, different for everything else that people confuse."""

from __future__ import annotations

import itertools
import random

import pytest
from pyspark.sql import DataFrame, SparkSession

from sqb.errors.lake import UnsupportedType
from sqb.spark.data.checksum import Content, build_content_columns, parse_content_sums


def content(frame: DataFrame) -> Content:
    return parse_content_sums(frame.agg(*build_content_columns(frame.schema)).collect()[0].asDict())


def of(spark: SparkSession, sql: str) -> Content:
    return content(spark.sql(sql))


def test_order_and_partitions_do_not_matter(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id, id % 7 AS k, concat('n', id) AS n FROM range(1000)")
    expected = content(rows)
    assert expected.count == 1000
    assert content(rows.repartition(5)) == expected
    assert content(rows.orderBy("k", "n").coalesce(1)) == expected


NEVER_EQUAL = {
    "where the NULL is": ("SELECT 1 a, CAST(NULL AS INT) b", "SELECT CAST(NULL AS INT) a, 1 b"),
    "where a list ends": ("SELECT array(1) a, array(2, 3) b", "SELECT array(1, 2) a, array(3) b"),
    "where an inner list ends": ("SELECT array(array(1), array(2, 3)) a", "SELECT array(array(1, 2), array(3)) a"),
    "where a text ends": ("SELECT 'a' a, 'b' b", "SELECT 'ab' a, '' b"),
    "NULL and empty text": ("SELECT '' a", "SELECT CAST(NULL AS STRING) a"),
    "twice and once": ("SELECT 1 a UNION ALL SELECT 1", "SELECT 1 a"),
    "twice and thrice": ("SELECT 1 a UNION ALL SELECT 1 UNION ALL SELECT 1", "SELECT 1 a UNION ALL SELECT 1"),
    "no struct and a struct of NULLs": (
        "SELECT CAST(NULL AS STRUCT<x: INT, y: INT>) a",
        "SELECT CAST(struct(NULL, NULL) AS STRUCT<x: INT, y: INT>) a",
    ),
    "NULL in a struct": (
        "SELECT struct(CAST(NULL AS INT) AS x, 1 AS y) a",
        "SELECT struct(1 AS x, CAST(NULL AS INT) AS y) a",
    ),
    "no list and an empty list": ("SELECT CAST(NULL AS ARRAY<INT>) a", "SELECT CAST(array() AS ARRAY<INT>) a"),
    "a list of NULL and an empty list": (
        "SELECT array(CAST(NULL AS INT)) a",
        "SELECT CAST(array() AS ARRAY<INT>) a",
    ),
    "NULLs in a list": (
        "SELECT array(CAST(NULL AS INT), 1) a",
        "SELECT array(1, CAST(NULL AS INT)) a",
    ),
    "no map and an empty map": ("SELECT CAST(NULL AS MAP<STRING, INT>) a", "SELECT CAST(map() AS MAP<STRING, INT>) a"),
    "key and value": ("SELECT map(1, 2) a", "SELECT map(2, 1) a"),
    "a map in a struct": ("SELECT struct(map('k', 1) AS m) a", "SELECT struct(map('k', 2) AS m) a"),
    "true and false": ("SELECT true a", "SELECT false a"),
    "false and NULL": ("SELECT false a", "SELECT CAST(NULL AS BOOLEAN) a"),
    "zero and NULL": ("SELECT 0.0D a", "SELECT CAST(NULL AS DOUBLE) a"),
    "the sign of zero": ("SELECT 0.0D a", "SELECT -0.0D a"),
    "the sign of zero in a list": ("SELECT array(CAST(0.0 AS FLOAT)) a", "SELECT array(CAST('-0.0' AS FLOAT)) a"),
    "decimals": ("SELECT 1.10 a", "SELECT 1.01 a"),
    "wide decimals": ("SELECT CAST(1 AS DECIMAL(38, 10)) a", "SELECT CAST(-1 AS DECIMAL(38, 10)) a"),
    "bytes": ("SELECT X'0001' a", "SELECT X'000100' a"),
    "microseconds": ("SELECT TIMESTAMP'2026-01-01 00:00:00' a", "SELECT TIMESTAMP'2026-01-01 00:00:00.000001' a"),
    "the case of a collated text": ("SELECT 'A' COLLATE UTF8_LCASE a", "SELECT 'a' COLLATE UTF8_LCASE a"),
}


@pytest.mark.parametrize("pair", NEVER_EQUAL.values(), ids=NEVER_EQUAL.keys())
def test_what_differs_has_different_contents(spark: SparkSession, pair: tuple[str, str]) -> None:
    assert of(spark, pair[0]) != of(spark, pair[1])


ALWAYS_EQUAL = {
    "the order of a map": ("SELECT map('a', 1, 'b', 2) a", "SELECT map('b', 2, 'a', 1) a"),
    "the order of a map of maps": (
        "SELECT map('a', map(1, 2), 'b', map(3, 4, 5, 6)) a",
        "SELECT map('b', map(5, 6, 3, 4), 'a', map(1, 2)) a",
    ),
    "the order of a map in a list": (
        "SELECT array(map('a', 1, 'b', CAST(NULL AS INT))) a",
        "SELECT array(map('b', CAST(NULL AS INT), 'a', 1)) a",
    ),
    "NaNs": ("SELECT CAST('NaN' AS DOUBLE) a", "SELECT -CAST('NaN' AS DOUBLE) a"),
    "small integers as they are stored": ("SELECT 1Y a, 2S b", "SELECT 1 a, 2 b"),
}


@pytest.mark.parametrize("pair", ALWAYS_EQUAL.values(), ids=ALWAYS_EQUAL.keys())
def test_what_is_equal_has_equal_contents(spark: SparkSession, pair: tuple[str, str]) -> None:
    assert of(spark, pair[0]) == of(spark, pair[1])


def test_contents_add_up(spark: SparkSession) -> None:
    old = of(spark, "SELECT id, -id AS v FROM range(100)")
    removed = of(spark, "SELECT id, -id AS v FROM range(10)")
    added = of(spark, "SELECT id, -id AS v FROM range(100, 130)")
    assert old - removed + added == of(spark, "SELECT id, -id AS v FROM range(10, 130)")


def test_no_rows(spark: SparkSession) -> None:
    assert of(spark, "SELECT id FROM range(0)") == Content()


def test_many_rows_do_not_overflow(spark: SparkSession) -> None:
    assert of(spark, "SELECT id FROM range(1000000)").count == 1_000_000


def test_awkward_column_names(spark: SparkSession) -> None:
    assert of(spark, "SELECT 1 AS `a.b`, 2 AS `c``d`, 3 AS `_sqb_hash0`, struct(1 AS `x y`) AS `rows`").count == 1


@pytest.mark.parametrize(
    "sql", ["SELECT parse_json('1') AS v", "SELECT array(INTERVAL '1' DAY) AS v", "SELECT NULL AS v"]
)
def test_types_that_cannot_be_stored_are_refused(spark: SparkSession, sql: str) -> None:
    with pytest.raises(UnsupportedType, match='column "v'):
        build_content_columns(spark.sql(sql).schema)


def test_different_rows_have_different_contents_and_multisets_their_sum(spark: SparkSession) -> None:
    items = [None, [], *([x] for x in (None, 0, 1)), *([x, y] for x in (None, 0, 1) for y in (None, 0, 1))]
    rows = list(itertools.product([None, -1, 0, 1], [None, "", "a", "ab"], items))
    frame = spark.createDataFrame(
        [(i, *row) for i, row in enumerate(rows)], "number INT, i INT, s STRING, l ARRAY<INT>"
    )
    columns = build_content_columns(frame.drop("number").schema)
    each = {r["number"]: parse_content_sums(r.asDict()) for r in frame.groupBy("number").agg(*columns).collect()}
    assert len(set(each.values())) == len(rows) == 224
    chosen = random.Random(7).choices(range(len(rows)), k=300)
    numbers = spark.createDataFrame([(n,) for n in chosen], "number INT")
    assert content(numbers.join(frame, "number").drop("number")) == sum((each[n] for n in chosen), Content())
