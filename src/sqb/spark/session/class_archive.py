"""An archive of the classes that Spark loads, so that later starts take half the time. Does not load Spark.

Java writes one when a process ends (`-XX:ArchiveClassesAtExit`) and maps it into the next (`-XX:SharedArchiveFile`). It
fits one Java and one class path only; any other Java ignores it, so a stale one does no harm.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from sqb.spark.session.jars import is_local
from sqb.spark.session.java import Java

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"


def compute_archive_path(java: Java, conf: Mapping[str, str]) -> Path | None:
    """Where the archive for a session of `conf` is or would be; None when a session of that kind cannot use one."""
    class_path = conf.get(_CLASS_PATH)
    if not is_local(conf["spark.master"]) or class_path is None:
        return None
    jars = [Path(entry) for entry in class_path.split(os.pathsep)]
    # Java looks at whole seconds too, and the layers of an image keep no more.
    stamps = [f"{jar}:{stat.st_size}:{int(stat.st_mtime)}" for jar in jars if (stat := _stat_or_none(jar))]
    spark = metadata.distribution("pyspark")
    # Java compares the whole class path, of which Spark's own jars are the most.
    place = str(spark.locate_file("pyspark"))
    key = "\n".join([str(java.path.resolve()), str(java.major), spark.version, place, *stamps])
    return _get_cache_folder() / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def add_archive(java: Java, conf: Mapping[str, str], user_conf: Mapping[str, str]) -> dict[str, str]:
    """The settings with the archive in use, where there is one; a user's own Java options are left alone."""
    path = compute_archive_path(java, conf)
    if path is None or JAVA_OPTIONS in user_conf or not path.is_file():
        return dict(conf)
    return {**conf, JAVA_OPTIONS: f'{conf.get(JAVA_OPTIONS, "")} "-XX:SharedArchiveFile={path}"'.strip()}


def remove_archive(java: Java, conf: Mapping[str, str]) -> None:
    """Remove the archive for a session of `conf`."""
    path = compute_archive_path(java, conf)
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _get_cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sqb"


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
