"""One Spark for the whole run, on a lake of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sqb.lake.jdbc import JdbcLake
from sqb.project.connections import Connection, SparkSettings
from sqb.spark.session import Engine, start_engine


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> JdbcLake:
    folder = tmp_path_factory.mktemp("lake")
    lake = JdbcLake(folder / "catalog.db", folder / "data")
    lake.ensure_schemas(["s"])
    return lake


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "spark.log"


@pytest.fixture(scope="session")
def engine(lake: JdbcLake, log_path: Path) -> Iterator[Engine]:
    settings = SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
    engine = start_engine(
        Connection(spark=settings), lake.name, lake.database, lake.warehouse, log_path, lambda line: None, 2
    )
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def spark(engine: Engine) -> SparkSession:
    return engine.worker_session()
