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
from sqb.errors import NoJava
from sqb.project.connections import resolved_spark
from sqb.spark.catalogs import packages_of
from sqb.spark.java import find_java
from sqb.spark.settings import session_conf
from sqb.workspace import Home

# How jars get to Spark depends on whether they were fetched before; which ones they are does not.
_OF_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
# What Spark, Java, Hadoop and the libraries below them read by themselves.
_READ_BY_SPARK = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "JAVA_", "JDK_JAVA_", "_JAVA_", "AWS_", "PYTHONPATH")
_NOT_OF_INTEREST = (
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
class Wanted:
    """What an engine must be, to serve a build."""

    connection: str
    settings: str
    sqb: str
    pyspark: str


def wanted_by(workspace: Home) -> Wanted:
    """The engine that serves builds of an opened project."""
    return Wanted(workspace.connection.name, _settings_of(workspace), __version__, metadata.version("pyspark"))


def _settings_of(workspace: Home) -> str:
    connection = replace(workspace.connection, spark=resolved_spark(workspace.connection))
    place = workspace.place
    conf = session_conf(connection, place, _ANYWHERE, _ANY_CONCURRENCY)
    ours = {key: value for key, value in conf.items() if key not in _OF_JARS}
    theirs = {key: connection.spark.conf.get(key) for key in _OF_JARS}
    parts = [ours, theirs, packages_of(place), _java(), sys.executable, sys.version, _environment()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _java() -> str:
    try:
        java = find_java()
    except NoJava:
        # Who starts Spark says so.
        return ""
    return f"{java.path.resolve()} {java.major}"


def _environment() -> Mapping[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_BY_SPARK) and name not in _NOT_OF_INTEREST
    }
