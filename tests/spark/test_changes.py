"""Rows that a change replaces are found by the bounds of files, wherever Python is in the world."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import SparkSession

from sqb.spark.data.changes import MULTIPLICITY, _build_file_bounds, plan_change, read_partition_keys


@pytest.fixture
def new_york() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_moments_do_not_depend_on_the_time_zone_of_python(spark: SparkSession, new_york: None) -> None:
    # There, the clocks showed half past one twice in that night.
    moments = "(1, '2026-11-01 05:30:00.000001'), (2, '2026-11-01 06:30:00'), (3, '2026-11-01 06:30:00.5')"
    both = "CAST(concat(m, 'Z') AS TIMESTAMP) AS at, CAST(m AS TIMESTAMP_NTZ) AS wall"
    spark.sql("CREATE TABLE s.moments (id BIGINT, at TIMESTAMP, wall TIMESTAMP_NTZ) USING iceberg")
    spark.sql(f"INSERT INTO s.moments SELECT /*+ COALESCE(1) */ id, {both} FROM VALUES {moments} AS t(id, m)")
    snapshot = spark.sql("SELECT snapshot_id FROM s.moments.snapshots").collect()[0][0]
    table, columns = spark.table("s.moments"), ["at", "wall"]
    change = spark.sql(f"SELECT at, wall, -1L AS {MULTIPLICITY} FROM s.moments WHERE id = 3")
    files, rows = plan_change(spark, "s.moments", snapshot, change, columns)
    assert files is not None and len(files) == 1 and rows.count() == 2
    assert table.where(_build_file_bounds(spark, "s.moments", files, table, columns)).count() == 3
    spark.sql("DROP TABLE s.moments")


@pytest.mark.parametrize(
    "key", ["trunc(\0day\0, 'WEEK')", "trunc(\0day\0, 'MM')", "trunc(\0day\0, 'QUARTER')", "trunc(\0day\0, 'YEAR')"]
)
@pytest.mark.parametrize("column", ["date", "timestamp"])
def test_all_days_of_a_touched_period_are_read(spark: SparkSession, key: str, column: str) -> None:
    """The bounds by which files are skipped leave no day of the period out, nor a moment of its last one."""
    days = "SELECT explode(sequence(DATE '2023-11-20', DATE '2025-01-10')) AS d UNION ALL SELECT DATE '9999-12-31'"
    late = "CAST(d AS TIMESTAMP) + INTERVAL '23:59:59.999999' HOUR TO SECOND" if column == "timestamp" else "d"
    rows = spark.sql(f"SELECT {late} AS day FROM ({days}) UNION ALL SELECT NULL")
    rows.createOrReplaceTempView("periods")
    touched = [date(2024, 2, 29), date(2024, 12, 31), None]
    keys = read_partition_keys(spark, "k", {0: key}, {0: touched})
    restricted = spark.sql(f"SELECT * FROM {keys.restrict('periods', {'k': key})}")
    period = key.replace("\0", "")
    wanted = " OR ".join(f"{period} = {period.replace('day', repr_day(d))}" for d in touched if d is not None)
    expected = spark.sql(f"SELECT day FROM periods WHERE {wanted} OR day IS NULL")
    assert sorted(map(str, restricted.collect())) == sorted(map(str, expected.collect()))
    assert expected.count() > 2


def repr_day(day: date) -> str:
    return f"DATE '{day}'"


def test_keys_of_partitions_are_their_values_or_made_of_them(spark: SparkSession) -> None:
    plain = read_partition_keys(spark, "k", {0: "a", 2: "b"}, {0: [1, None], 2: [2, 1]})
    assert plain.literals == {"k": [1, None, 2]}
    made = read_partition_keys(spark, "k", {0: "a", 2: "(\0b\0 % 4)"}, {0: [1, 2], 2: [6, 9, None]})
    assert made.all_literal and set(made.literals["k"] or ()) == {1, 2, None}
