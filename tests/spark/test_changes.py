"""Rows that a change replaces are found by the bounds of files, wherever Python is in the world."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sqb.spark.data.changes import MULTIPLICITY, _build_file_bounds, plan_change


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
