"""Which versions of Spark sqb works with, and Iceberg's runtime for each. Does not import PySpark, which takes long."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sqb.errors.spark import SparkNotSupported

# By the first two numbers of Spark's version, the newest that Iceberg has for each.
RUNTIMES = {
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
NEWEST = "4.1"
_WHY_NOT_3 = "Spark 3 has no `FROM table WITH (…)`, with which sqb reads what changed in a table: "
_VERSION = re.compile(r"""^__version__.*=\s*["']([^"']+)["']""", re.MULTILINE)


@cache
def read_spark_version() -> str | None:
    """The version of the PySpark that would be imported; None where there is none, or it does not say."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    try:
        match = _VERSION.search(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
    except OSError:
        return None
    return match[1] if match is not None else None


def choose_runtime(version: str | None) -> str:
    """Iceberg's runtime for a version of Spark; that for the newest where there is none for it."""
    return RUNTIMES.get(_shorten(version or ""), RUNTIMES[NEWEST])


def refuse_unknown_spark(version: str | None) -> None:
    """Raise SparkNotSupported for a PySpark that sqb has no Iceberg runtime for, before Java is started."""
    if version is None or _shorten(version) in RUNTIMES:
        return
    why = _WHY_NOT_3 if version.startswith("3.") else ""
    raise SparkNotSupported(
        f"PySpark {version} is installed, and sqb works with Spark {' and '.join(RUNTIMES)}",
        hint=f"{why}install one of them, for instance `pip install 'pyspark=={NEWEST}.*'`",
    )


def _shorten(version: str) -> str:
    return ".".join(version.split(".")[:2])
