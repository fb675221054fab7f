"""The settings that a Spark session is started with: ours below, the user's on top. Does not load Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import SUBSTITUTION, Connection, resolve_spark
from sqb.project.config.session_settings import RESULT_SETTINGS
from sqb.spark.session.catalog_conf import build_catalog_conf, list_packages
from sqb.spark.session.jars import build_jar_conf, is_local
from sqb.spark.session.java_options import JAVA_OPTIONS, Compiler, build_java_options

DEFAULT_MASTER = "local[*]"
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_MEMORY_SHARE = 0.4
_MIN_MEMORY_MB = 1024
_MAX_MEMORY_MB = 8192
_CORES = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
# What every session has. Spark would replace `${…}` in every text that it is given, in the names of tables and columns
# and in strings too; and its statistics of a cached change know no NaN, so that a filter for it would find no row.
_ALWAYS = {SUBSTITUTION: "false", "spark.sql.inMemoryColumnarStorage.partitionPruning": "false"}


def build_session_conf(
    connection: Connection, place: LakeLocation, scratch: Path, concurrency: int, compiler: Compiler = "full"
) -> dict[str, str]:
    """Everything that a session is started with."""
    user_conf = resolve_spark(connection).conf
    master = get_master(connection)
    return {
        "spark.master": master,
        **_build_general_conf(scratch),
        **build_catalog_conf(place, concurrency),
        **(_build_local_conf(master) if is_local(master) else {}),
        **user_conf,
        **(_build_java_conf(user_conf, compiler, place) if is_local(master) else {}),
        **build_jar_conf(master, user_conf, list_packages(place)).conf,
        **_ALWAYS,
    }


def get_master(connection: Connection) -> str:
    """Where a Spark of the build's own runs its tasks."""
    spark = resolve_spark(connection)
    return spark.conf.get("spark.master") or spark.master or DEFAULT_MASTER


def build_shared_conf(
    connection: Connection, place: LakeLocation, concurrency: int, has_catalog: bool
) -> dict[str, str]:
    """What is set in sessions of a Spark that runs already; a catalog that it has keeps the settings that it has."""
    catalog = build_catalog_conf(place, concurrency)
    if has_catalog:
        uncached = f"spark.sql.catalog.{place.name}.cache-enabled"
        catalog = {key: catalog[key] for key in ("spark.sql.defaultCatalog", uncached)}
    return {**RESULT_SETTINGS, **catalog, **resolve_spark(connection).conf, **_ALWAYS}


def _build_general_conf(scratch: Path) -> Mapping[str, str]:
    return {
        "spark.app.name": "sqb",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # No page shows them, and the plans of a thousand queries would fill the memory of a long build.
        "spark.sql.ui.retainedExecutions": "100",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.log.level": "WARN",
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        **RESULT_SETTINGS,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        # Without these two, Spark makes a Hive metastore and a warehouse folder in the user's working directory.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _build_local_conf(master: str) -> Mapping[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_compute_driver_memory_mb()}m",
        "spark.sql.shuffle.partitions": str(2 * count_cores(master)),
    }


def _build_java_conf(user_conf: Mapping[str, str], compiler: Compiler, place: LakeLocation) -> Mapping[str, str]:
    options = build_java_options(
        compiler, user_conf.get(JAVA_OPTIONS, ""), plans_alone=_has_only_files(user_conf, place)
    )
    return {JAVA_OPTIONS: options}


def _has_only_files(user_conf: Mapping[str, str], place: LakeLocation) -> bool:
    """Whether all tables of a Spark have their manifests in local folders, where they are read in no time."""
    return place.folder is not None and not any(key.startswith("spark.sql.catalog.") for key in user_conf)


def count_cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    match = _CORES.fullmatch(master)
    if match is None:
        return 1
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1])


def _compute_driver_memory_mb() -> int:
    share = int(_read_memory_bytes() * _MEMORY_SHARE) // 2**20
    return max(_MIN_MEMORY_MB, min(_MAX_MEMORY_MB, share))


def _read_memory_bytes() -> int:
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
