"""Spark takes what sqlglot does not read: the list that the unit tests hold sqb to is true."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from support.unread import UNREAD


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> None:
    spark.sql('SELECT 1 AS id, \'a\' AS name, \'{"a": {"b": 1, "c": [2]}}\' AS json').createOrReplaceTempView("t")
    spark.sql("SELECT 1 AS id, 'x' AS tag").createOrReplaceTempView("u")


@pytest.mark.parametrize("text", UNREAD)
def test_spark_takes_it(spark: SparkSession, text: str) -> None:
    spark.sql(text).collect()
