"""How fresh sources of a dbt project are, where only Spark can tell: expressions, texts, filters that look at rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqb.dbt.model import DbtProject, DbtSource, DbtVersion
from sqb.dbt.observe import observe_dbt
from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "source.shop.s.dbt_orders"


@pytest.fixture(scope="module")
def table(spark: SparkSession, lake: IcebergLake) -> Relation:
    spark.sql("CREATE TABLE lake.s.dbt_orders (id INT, loaded STRING) USING iceberg").collect()
    spark.sql("INSERT INTO lake.s.dbt_orders VALUES (1, '2024-01-01 10:00:00'), (2, '2024-01-02 10:00:00')").collect()
    return Relation("s", "dbt_orders")


def _asked(session: Callable[[], SparkSession]) -> tuple[list[int], Callable[[], SparkSession]]:
    calls: list[int] = []

    def counting() -> SparkSession:
        calls.append(1)
        return session()

    return calls, counting


@pytest.mark.parametrize(
    ("field", "filter_", "version"),
    [
        ("cast(loaded as timestamp)", None, "2024-01-02T10:00:00.000000+00:00"),
        ("cast(loaded as timestamp)", "id < 2", "2024-01-01T10:00:00.000000+00:00"),
        ("loaded", "id < 2 -- the first", "2024-01-01 10:00:00"),
    ],
)
def test_spark_is_asked_once_for_what_statistics_do_not_tell(
    field: str,
    filter_: str | None,
    version: str,
    table: Relation,
    spark: SparkSession,
    lake: IcebergLake,
    tmp_path: Path,
) -> None:
    lake = IcebergLake(lake.place, cache=tmp_path)
    source = DbtSource(NAME, "s.dbt_orders", table, field, filter=filter_, error_after=3600.0)
    project = DbtProject("shop", "1.11.16", {}, {NAME: source})
    calls, session = _asked(lambda: spark)
    seen = observe_dbt(project, lake, session).states[NAME]
    assert seen.version == DbtVersion("value", version)
    # A text tells one version from another, but no age.
    assert (seen.age is None) == (field == "loaded")
    assert bool(calls)
    asked = len(calls)
    assert observe_dbt(project, lake, session).states[NAME].version == seen.version
    assert len(calls) == asked


def test_a_question_that_fails_is_told(table: Relation, spark: SparkSession, lake: IcebergLake) -> None:
    source = DbtSource(NAME, "s.dbt_orders", table, "nonsense(", error_after=3600.0)
    observed = observe_dbt(DbtProject("shop", "1.11.16", {}, {NAME: source}), lake, lambda: spark)
    (notice,) = observed.notices
    assert notice.startswith("the freshness of s.dbt_orders cannot be read:")
    version = observed.states[NAME].version
    assert version is not None and version.kind == "snapshot"
