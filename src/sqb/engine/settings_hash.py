"""What a build is about to start Spark with, as a short text: an engine that was started with the same serves it.

Does not load Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from sqb import __version__
from sqb.errors.spark import NoJava
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, resolve_spark
from sqb.spark.session.catalog_conf import list_packages
from sqb.spark.session.conf import build_session_conf
from sqb.spark.session.java import find_java
from sqb.workspace import ProjectHome

# How jars get to Spark depends on whether they were fetched before; which ones they are does not.
_JAR_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
# What Spark, Java, Hadoop and the libraries below them read by themselves.
_SPARK_VARIABLES = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "JAVA_", "JDK_JAVA_", "_JAVA_", "AWS_", "PYTHONPATH")
_IGNORED_VARIABLES = (
    "SPARK_CONNECT_AUTHENTICATE_TOKEN",
    "SPARK_REMOTE",
    # What PySpark sets by itself in a process that has had a Spark.
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
)
# Folders that are made anew for every Spark, and how many may work at once, make no other engine.
_ANYWHERE = Path("/")
_ANY_CONCURRENCY = 2


@dataclass(frozen=True, slots=True)
class EngineRequirements:
    """What an engine must be, to serve a build."""

    connection: str
    settings: str
    sqb: str
    pyspark: str


def compute_requirements(workspace: ProjectHome) -> EngineRequirements:
    """The engine that serves builds of an opened project."""
    return EngineRequirements(
        workspace.connection.name, _hash_settings(workspace), __version__, metadata.version("pyspark")
    )


def _hash_settings(workspace: ProjectHome) -> str:
    connection = replace(workspace.connection, spark=resolve_spark(workspace.connection))
    place = workspace.lake_location
    conf = build_session_conf(connection, place, _ANYWHERE, _ANY_CONCURRENCY)
    conf_without_jars = {key: value for key, value in conf.items() if key not in _JAR_SETTINGS}
    jar_conf = {key: connection.spark.conf.get(key) for key in _JAR_SETTINGS}
    parts = [
        conf_without_jars,
        jar_conf,
        list_packages(place),
        _describe_java(),
        sys.executable,
        sys.version,
        _read_environment(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def read_memory_limit(connection: Connection, place: LakeLocation) -> str | None:
    """How much memory Java may use for objects in an engine of a connection, as Spark's settings have it."""
    return build_session_conf(connection, place, _ANYWHERE, _ANY_CONCURRENCY).get("spark.driver.memory")


def _describe_java() -> str:
    try:
        java = find_java()
    except NoJava:
        # Who starts Spark says so.
        return ""
    path = java.path.resolve()
    # An upgrade in the same place leaves a Java running whose files are gone.
    return f"{path} {java.major} {path.stat().st_mtime_ns if path.exists() else 0}"


def _read_environment() -> Mapping[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SPARK_VARIABLES) and name not in _IGNORED_VARIABLES
    }
