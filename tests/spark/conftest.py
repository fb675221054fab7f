"""Sessions on the lake that Spark was started on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sqb.lake.jdbc import JdbcLake
from sqb.spark.session import Engine


@pytest.fixture(scope="session")
def lake(spark_lake: JdbcLake) -> JdbcLake:
    spark_lake.ensure_schemas(["s"])
    return spark_lake


@pytest.fixture(scope="session")
def spark(engine: Engine, lake: JdbcLake) -> SparkSession:
    return engine.worker_session()
