"""The settings that a Spark session is started with: ours below, the user's on top. Does not load Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sqb.project.connections import SUBSTITUTION, Connection, resolved_spark
from sqb.project.place import Place
from sqb.project.session_settings import RESULT_SETTINGS
from sqb.spark.catalogs import catalog_conf, packages_of
from sqb.spark.jars import is_local, supply

DEFAULT_MASTER = "local[*]"
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SHARE_OF_MEMORY = 0.4
_LEAST_MEMORY_MB = 1024
_MOST_MEMORY_MB = 8192
_CORES = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
# Batches care for throughput, not for pauses. Later C2 compiles leave the cores to the work while a build starts;
# loops and whatever runs per row are still compiled at once.
_JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=30000",
    "-XX:Tier4MinInvocationThreshold=5000",
    "-XX:Tier4CompileThreshold=60000",
)
# Spark would replace `${…}` in every text that it is given, in the names of tables and columns and in strings too.
_AS_WRITTEN = {SUBSTITUTION: "false"}


def session_conf(connection: Connection, place: Place, scratch: Path, concurrency: int) -> dict[str, str]:
    """Everything that a session is started with."""
    theirs = resolved_spark(connection).conf
    master = master_of(connection)
    return {
        "spark.master": master,
        **_general(scratch),
        **catalog_conf(place, concurrency),
        **(_local(master) if is_local(master) else {}),
        **theirs,
        **supply(master, theirs, packages_of(place)).conf,
        **_AS_WRITTEN,
    }


def master_of(connection: Connection) -> str:
    """Where a Spark of the build's own runs its tasks."""
    spark = resolved_spark(connection)
    return spark.conf.get("spark.master") or spark.master or DEFAULT_MASTER


def shared_conf(connection: Connection, place: Place, concurrency: int, has_catalog: bool) -> dict[str, str]:
    """What is set in sessions of a Spark that runs already; a catalog that it has keeps the settings that it has."""
    catalog = catalog_conf(place, concurrency)
    if has_catalog:
        uncached = f"spark.sql.catalog.{place.name}.cache-enabled"
        catalog = {key: catalog[key] for key in ("spark.sql.defaultCatalog", uncached)}
    return {**RESULT_SETTINGS, **catalog, **resolved_spark(connection).conf, **_AS_WRITTEN}


def _general(scratch: Path) -> Mapping[str, str]:
    return {
        "spark.app.name": "sqb",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        **RESULT_SETTINGS,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        # Without these two, Spark makes a Hive metastore and a warehouse folder where the user happens to stand.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _local(master: str) -> Mapping[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.sql.shuffle.partitions": str(2 * cores(master)),
        "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
    }


def cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    found = _CORES.fullmatch(master)
    if found is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def _driver_memory_mb() -> int:
    share = int(_memory_bytes() * _SHARE_OF_MEMORY) // 2**20
    return max(_LEAST_MEMORY_MB, min(_MOST_MEMORY_MB, share))


def _memory_bytes() -> int:
    """The memory that this process may use: the machine's, or less inside a container."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return min(machine, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return machine
