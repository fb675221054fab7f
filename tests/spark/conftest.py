"""Sessions on the lake that Spark was started on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sqb.lake.iceberg import IcebergLake
from sqb.spark.engine import Engine


@pytest.fixture(scope="session")
def lake(spark_lake: IcebergLake) -> IcebergLake:
    spark_lake.ensure_schemas(["s"])
    return spark_lake


@pytest.fixture(scope="session")
def spark(engine: Engine, lake: IcebergLake) -> SparkSession:
    return engine.worker_session()
