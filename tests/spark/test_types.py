"""The common type of two types and what can be cast, held against Spark for all pairs of types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sqb.spark.data.column_types import list_types
from sqb.types.cast import can_cast
from sqb.types.common import common_type
from sqb.types.format import format_sql_type
from sqb.types.model import Type
from sqb.types.parse import parse_type
from sqb.types.spark_json import from_json_type, to_json_type

TEXTS = """
    boolean; tinyint; smallint; int; bigint; float; double; string; binary; date; timestamp; timestamp_ntz; void
    variant
    decimal(1,0); decimal(3,0); decimal(5,0); decimal(10,0); decimal(10,2); decimal(19,0); decimal(20,0); decimal(20,5)
    decimal(30,0); decimal(30,20); decimal(38,0); decimal(38,10); decimal(38,38)
    interval; interval year; interval month; interval year to month; interval day; interval hour to minute
    interval day to second; time(0); time(6); string collate UTF8_LCASE; string collate UNICODE_CI
    array<int>; array<bigint>; array<string>; array<void>; array<decimal(3,1)>; array<array<date>>
    map<string,int>; map<string,bigint>; map<int,int>; map<date,int>; map<timestamp,int>; map<bigint,decimal(10,2)>
    map<decimal(3,0),int>; map<decimal(10,0),int>; map<float,int>
    struct<a:int,b:string>; struct<A:bigint,B:string>; struct<b:string,a:int>; struct<a:int>; struct<c:int>
    array<struct<a:int>>; array<struct<A:decimal(3,1)>>; map<string,struct<a:void>>; struct<a:struct<b:date>>
"""
KINDS = [kind for text in TEXTS.replace("\n", ";").split(";") if text.strip() and (kind := parse_type(text))]
PAIRS = list(product(KINDS, KINDS))


@pytest.fixture(scope="module")
def nulls(spark: SparkSession) -> Iterator[str]:
    """A view with one column of each type, `c0` and so on."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    columns = (f"CAST(NULL AS {format_sql_type(kind)}) AS c{i}" for i, kind in enumerate(KINDS))
    frame = spark.sql(f"SELECT {', '.join(columns)}")
    assert [kind for _, kind in list_types(frame)] == KINDS
    frame.createOrReplaceTempView("nulls")
    yield "nulls"
    spark.catalog.dropTempView("nulls")
    spark.conf.unset("spark.sql.timeType.enabled")


def list_result_types(spark: SparkSession, sql: str) -> list[Type]:
    return [kind for _, kind in list_types(spark.sql(sql))]


def test_every_type_is_known() -> None:
    assert len(KINDS) == TEXTS.count(";") + TEXTS.count("\n") - 1


def test_common_types_are_those_of_spark(spark: SparkSession, nulls: str) -> None:
    expected = [(one, other, both) for one, other in PAIRS if (both := common_type(one, other)) is not None]
    columns = [(f"c{KINDS.index(one)}", f"c{KINDS.index(other)}") for one, other, _ in expected]
    coalesced = ", ".join(f"coalesce({one}, {other}) AS p{i}" for i, (one, other) in enumerate(columns))
    first = ", ".join(f"{one} AS p{i}" for i, (one, _) in enumerate(columns))
    second = ", ".join(other for _, other in columns)
    for sql in (
        f"SELECT {coalesced} FROM {nulls}",
        f"SELECT {first} FROM {nulls} UNION ALL SELECT {second} FROM {nulls}",
    ):
        types = list_result_types(spark, sql)
        differences = [
            (str(one), str(other), str(both), str(kind))
            for (one, other, both), kind in zip(expected, types, strict=True)
            if both != kind
        ]
        assert differences == []


def test_types_without_a_common_type_have_none_in_spark(spark: SparkSession) -> None:
    rule = get_object(spark, "analysis.AnsiTypeCoercion")
    java = [parse_in_spark(spark, kind) for kind in KINDS]
    refused = [(i, j) for i, j in product(range(len(KINDS)), repeat=2) if common_type(KINDS[i], KINDS[j]) is None]
    assert [(KINDS[i], KINDS[j]) for i, j in refused if rule.findWiderTypeForTwo(java[i], java[j]).isDefined()] == []


def test_casts_are_those_of_spark(spark: SparkSession, nulls: str) -> None:
    possible = [(i, other) for i, one in enumerate(KINDS) for other in KINDS if can_cast(one, other)]
    casts = ", ".join(f"CAST(c{i} AS {format_sql_type(kind)}) AS p{n}" for n, (i, kind) in enumerate(possible))
    types = list_result_types(spark, f"SELECT {casts} FROM {nulls}")
    assert [(i, kind) for (i, kind), result in zip(possible, types, strict=True) if kind != result] == []


def test_casts_that_spark_refuses(spark: SparkSession) -> None:
    rule = get_object(spark, "expressions.Cast")
    java = [parse_in_spark(spark, kind) for kind in KINDS]
    refused = [(i, j) for i, j in product(range(len(KINDS)), repeat=2) if not can_cast(KINDS[i], KINDS[j])]
    assert [(KINDS[i], KINDS[j]) for i, j in refused if rule.canAnsiCast(java[i], java[j])] == []


def test_spark_writes_types_as_we_do(spark: SparkSession) -> None:
    written = [(kind, parse_in_spark(spark, kind)) for kind in KINDS]
    assert [str(kind) for kind, java in written if java.simpleString() != str(kind)] == []
    assert [str(kind) for kind, java in written if from_json_type(json.loads(java.json())) != kind] == []
    assert [from_json_type(to_json_type(kind)) for kind in KINDS] == KINDS


def parse_in_spark(spark: SparkSession, kind: Type) -> Any:
    """The type as an object of Java's."""
    return spark._jsparkSession.sessionState().sqlParser().parseDataType(format_sql_type(kind))


def get_object(spark: SparkSession, name: str) -> Any:
    """One of the objects of Scala that hold Spark's rules."""
    package, _, name = name.partition(".")
    catalyst: Any = spark._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
    return getattr(getattr(getattr(catalyst, package), f"{name}$"), "MODULE$")
