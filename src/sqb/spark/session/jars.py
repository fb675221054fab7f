"""The jars that Spark needs beside itself: which ones, where Ivy keeps them, and how a session is given them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqb.spark.session.versions import choose_runtime, read_spark_version

ICEBERG = choose_runtime(read_spark_version())
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRES = "org.postgresql:postgresql:42.7.14"
# What Iceberg needs of Amazon's libraries, for object stores that speak S3 and for Glue.
AWS = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG.rpartition(':')[2]}"
# Those of the embedded catalog.
PACKAGES = (ICEBERG, SQLITE)
FETCHING = "fetching Iceberg's Spark runtime (first run only, about 60 MB)"
FETCHING_MORE = "fetching what Spark needs for this connection (first run only, up to 150 MB)"
# Where Spark keeps what it fetches.
_IVY = "spark.jars.ivy"
_UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\]\s]+)")
_UNFETCHED = ("unresolved dependency", "download failed", "SERVER ERROR", "UnknownHostException")


@dataclass(frozen=True, slots=True)
class JarConf:
    """The settings that give a session its jars, and whether they must be fetched first."""

    conf: Mapping[str, str]
    needs_fetch: bool


def find_cached_jars(packages: Sequence[str], conf: Mapping[str, str]) -> tuple[Path, ...] | None:
    """The jars of `packages` in Ivy's folder, or None when one is missing or was cut off while it was written."""
    folder = _get_ivy_folder(conf) / "jars"
    paths = tuple(folder / "{}_{}-{}.jar".format(*package.split(":")) for package in packages)
    return paths if all(_is_complete(path) for path in paths) else None


def build_jar_conf(master: str, conf: Mapping[str, str], packages: Sequence[str] = PACKAGES) -> JarConf:
    """How to give `packages` to a session beside what the user's `conf` asks for."""
    # Java takes the home of whoever runs it from the list of users, whatever HOME says.
    folder = {_IVY: str(_get_ivy_folder(conf))}
    jars = find_cached_jars(packages, conf)
    if jars is None:
        packages_setting = _join_settings(",", packages, conf.get("spark.jars.packages"))
        return JarConf({**folder, "spark.jars.packages": packages_setting}, needs_fetch=True)
    paths = [str(path) for path in jars]
    if is_local(master):
        # On the class path of the one process there is, nothing is copied and the class archive can hold the classes.
        class_path = _join_settings(os.pathsep, paths, conf.get("spark.driver.extraClassPath"))
        return JarConf({**folder, "spark.driver.extraClassPath": class_path}, needs_fetch=False)
    return JarConf({**folder, "spark.jars": _join_settings(",", paths, conf.get("spark.jars"))}, needs_fetch=False)


def is_local(master: str) -> bool:
    """Whether a master runs everything in the driver's own process."""
    return master == "local" or master.startswith("local[")


def is_fetch_failure(log: str) -> bool:
    """Whether Spark's log says that it ended because a jar could not be fetched."""
    return any(sign in log for sign in _UNFETCHED)


def list_unresolved(log: str) -> tuple[str, ...]:
    """The packages that Spark's log says it could not find, each once."""
    return tuple(dict.fromkeys(":".join(coordinates) for coordinates in _UNRESOLVED.findall(log)))


def _join_settings(separator: str, settings: Sequence[str], user_setting: str | None) -> str:
    return separator.join([*settings, *([user_setting] if user_setting else [])])


def _get_ivy_folder(conf: Mapping[str, str]) -> Path:
    return Path(conf.get(_IVY) or Path.home() / ".ivy2.5.2")


def _is_complete(path: Path) -> bool:
    """A zip file ends with its directory; a jar that was cut off does not."""
    try:
        with open(path, "rb") as file:
            file.seek(-min(path.stat().st_size, 65_557), os.SEEK_END)
            return b"PK\x05\x06" in file.read()
    except OSError:
        return False
