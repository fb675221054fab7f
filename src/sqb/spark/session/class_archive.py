"""An archive of the classes that Spark loads, so that later starts take half the time. Does not load Spark.

Java writes one when a process ends (`-XX:ArchiveClassesAtExit`) and maps it into the next (`-XX:SharedArchiveFile`). It
fits one Java and one class path only; any other Java goes without it, so a stale one does no harm. One that was cut off
would let Java crash: a whole one ends with a mark of ours, which Java does not look at.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Literal

from sqb.spark.session.jars import is_local
from sqb.spark.session.java import Java
from sqb.spark.session.java_options import JAVA_OPTIONS, chooses_archive

VARIABLE = "SQB_CLASS_ARCHIVE"
WHOLE_MARK = b"\nsqb: the archive is whole\n"
# An archive takes 200 MB: one that was not used for so long, and more than so many, are removed.
_SECONDS_UNUSED = 30 * 24 * 3600.0
_MAX_ARCHIVES = 6
_SECONDS_TO_WRITE = 3600.0
_CLASS_PATH = "spark.driver.extraClassPath"
# Whoever sets these gives Spark further entries of the class path, before or after its own.
_CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
# What a Java that was upgraded in its place has anew.
_JAVA_FILES = ("release", "lib/modules", "lib/server/classes.jsa")

Policy = Literal["auto", "use", "off"]


def read_policy() -> Policy:
    """What the environment says: make archives and use them, only use them, or neither.

    On CI one that is made after a build comes too late for it, and is lost with the machine.
    """
    match os.environ.get(VARIABLE, "").strip().lower():
        case "off" | "0" | "false" | "no":
            return "off"
        case "use":
            return "use"
        case "auto" | "on" | "1" | "true" | "yes":
            return "auto"
        case _:
            return "use" if os.environ.get("CI") else "auto"


def compute_archive_path(java: Java, conf: Mapping[str, str]) -> Path | None:
    """Where the archive for a session of `conf` is or would be; None when a session of that kind cannot use one."""
    class_path = conf.get(_CLASS_PATH)
    if not is_local(conf["spark.master"]) or class_path is None or read_policy() == "off":
        return None
    additions = [os.environ.get(name, "") for name in _CLASS_PATH_VARIABLES]
    entries = [entry for text in (class_path, *additions) for entry in text.split(os.pathsep) if entry]
    if any(_is_filled_folder(Path(entry)) for entry in entries):
        # Java archives classes from jars alone.
        return None
    home = _find_spark_home()
    installed = java.path.resolve()
    # Java compares the whole class path, of which Spark's own jars are the most.
    files = [*(installed.parent.parent / name for name in _JAVA_FILES), *map(Path, entries), *_list_jars(home)]
    stamps = [f"{file}:{stat.st_size}:{int(stat.st_mtime)}" for file in files if (stat := _stat_or_none(file))]
    key = "\n".join([str(installed), str(java.major), str(home), *additions, *stamps])
    return get_cache_folder() / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def add_archive(java: Java, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings with the archive in use, where there is one; a user's own choice of one is left alone."""
    path, options = compute_archive_path(java, conf), conf.get(JAVA_OPTIONS, "")
    if path is None or chooses_archive(options) or not is_whole(path):
        return dict(conf)
    with suppress(OSError):
        # When it was last used decides which ones go.
        os.utime(path)
    archive = f'"-XX:SharedArchiveFile={path}" -Xshare:auto -XX:+VerifySharedSpaces'
    return {**conf, JAVA_OPTIONS: f"{archive} {options}".strip()}


def is_whole(path: Path) -> bool:
    """Whether an archive is there, can be read, and was not cut off."""
    try:
        with open(path, "rb") as file:
            file.seek(-len(WHOLE_MARK), os.SEEK_END)
            return file.read() == WHOLE_MARK
    except OSError:
        return False


def is_mapped(path: Path, pid: int) -> bool:
    """Whether a process of Java has taken the archive; True where the system does not tell."""
    try:
        return str(path) in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return True


def remove_archive(java: Java, conf: Mapping[str, str]) -> None:
    """Remove the archive for a session of `conf`."""
    path = compute_archive_path(java, conf)
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def remove_old_archives(folder: Path, new: Path) -> None:
    """Remove archives that were not used for long or are too many, and what was left half written; `new` stays."""
    now = time.time()
    archives = sorted(_list_ages(folder, "spark-*.jsa", now), key=lambda item: (item[1] != new, item[0]))
    old = [path for number, (age, path) in enumerate(archives) if age > _SECONDS_UNUSED or number >= _MAX_ARCHIVES]
    old += [path for age, path in _list_ages(folder, "spark-*.part", now) if age > _SECONDS_TO_WRITE]
    old += [path for age, path in _list_ages(folder, "spark-*.lock", now) if age > _SECONDS_UNUSED]
    for path in old:
        if path != new:
            with suppress(OSError):
                path.unlink()


def get_cache_folder() -> Path:
    """Where archives are, for all projects of a user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sqb"


def _list_ages(folder: Path, pattern: str, now: float) -> Iterator[tuple[float, Path]]:
    """The files of a pattern, and for how many seconds they were not touched."""
    return ((now - stat.st_mtime, path) for path in folder.glob(pattern) if (stat := _stat_or_none(path)))


def _find_spark_home() -> Path:
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(str(metadata.distribution("pyspark").locate_file("pyspark")))


def _list_jars(spark_home: Path) -> list[Path]:
    return sorted((spark_home / "jars").glob("*.jar"))


def _is_filled_folder(path: Path) -> bool:
    try:
        return path.is_dir() and any(path.iterdir())
    except OSError:
        return False


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
