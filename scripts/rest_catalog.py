"""Fetches Iceberg's own REST catalog server, which tests of REST catalogs run; does nothing when it is there already.

The Iceberg project publishes the server that its own tests use: a REST catalog over a JDBC catalog. It needs few jars
beside those that Spark has anyway. Ivy, which comes with Spark, fetches them by name, as Spark does with its packages.
Where they cannot be fetched, for instance without a network, the tests that need them are skipped, unless
SQB_ALL_REQUIRED is set.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from sqb.errors.base import SqbError
from sqb.spark.session.java import find_java

WANTED = Path(__file__).with_suffix(".xml")
FOLDER = Path(sys.prefix) / "rest-catalog"
_STAMP = FOLDER / ".fetched"


def class_path() -> str | None:
    """What Java needs to run the server; None when it was not fetched."""
    if not _is_there():
        return None
    return os.pathsep.join([f"{FOLDER}/*", f"{_spark_jars()}/*"])


def fetch() -> None:
    """Fetch the jars, each of the version that is written down."""
    if _is_there():
        return
    print("Fetching Iceberg's REST catalog server, for the tests of REST catalogs")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for jar in FOLDER.glob("*.jar"):
        jar.unlink()
    command = [find_java().path, "-cp", f"{_spark_jars()}/*", "org.apache.ivy.Main", "-warn", "-m2compatible"]
    command += ["-ivy", WANTED, "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{FOLDER}/[artifact]-[revision](-[classifier]).[ext]"]
    subprocess.run(list(map(str, command)), check=True, timeout=300)
    _STAMP.write_text(_wanted())


def _is_there() -> bool:
    return _STAMP.is_file() and _STAMP.read_text() == _wanted()


def _wanted() -> str:
    return hashlib.sha256(WANTED.read_bytes()).hexdigest()


def _spark_jars() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is not installed"
    return Path(spec.origin).parent / "jars"


if __name__ == "__main__":
    try:
        fetch()
    except (OSError, subprocess.SubprocessError, SqbError) as error:
        print(f"the REST catalog server could not be fetched, so its tests are skipped: {error}", file=sys.stderr)
        sys.exit(1 if os.environ.get("SQB_ALL_REQUIRED") else 0)
