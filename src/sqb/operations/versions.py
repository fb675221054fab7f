"""The versions of sqb and of what it works with, for a report."""

from __future__ import annotations

import platform

from sqb import __version__
from sqb.errors.base import SqbError


def read_versions() -> dict[str, str]:
    """The versions by name, as `sqb version --json` prints them."""
    from importlib import metadata

    from sqb.spark.session.jars import PACKAGES
    from sqb.spark.session.java import find_java

    try:
        java = find_java()
        java_text = f"{java.major} ({java.path})"
    except SqbError as error:
        java_text = error.message
    return {
        "sqb": __version__,
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
        "pyiceberg": metadata.version("pyiceberg"),
        "sqlglot": metadata.version("sqlglot"),
        "iceberg": next(p for p in PACKAGES if "iceberg" in p).rpartition(":")[2],
        "java": java_text,
    }
