"""Having the class archive made: in the background, after a Spark that could have used one. Does not load Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sqb.spark.session.class_archive import compute_archive_path, is_whole, read_policy
from sqb.spark.session.java import Java
from sqb.spark.session.java_options import JAVA_OPTIONS, chooses_archive

# Without the current folder among the places of modules: a project may hold files of any name.
COMMAND = (sys.executable, "-P", "-m", "sqb.spark.session.train_archive")
_CLASS_PATH = "spark.driver.extraClassPath"
# What an archive takes, and what is left to others.
_MIN_FREE_BYTES = 2 * 2**30
# What went wrong once is not tried after every build.
_SECONDS_UNTIL_RETRY = 24 * 3600.0
# No command waits for them; Python would complain of a process that it forgets.
_LAUNCHED: list[subprocess.Popen[bytes]] = []


def request_archive(java: Java, conf: Mapping[str, str]) -> bool:
    """Have the archive made for sessions of `conf` where there is none and one can be; whether that has begun."""
    target = find_missing_archive(java, conf)
    if target is None or not _has_room(target.parent) or _was_tried(target):
        return False
    with suppress(OSError):
        _LAUNCHED.append(
            subprocess.Popen(
                [*COMMAND, conf[_CLASS_PATH], str(target)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Neither Ctrl-C nor the end of the terminal reaches it.
                start_new_session=True,
            )
        )
        return True
    return False


def find_missing_archive(java: Java, conf: Mapping[str, str]) -> Path | None:
    """Where the archive would be that sessions of `conf` lack; None when they have one or are to have none."""
    target = compute_archive_path(java, conf)
    if target is None or read_policy() != "auto" or chooses_archive(conf.get(JAVA_OPTIONS, "")):
        return None
    return None if is_whole(target) else target


def get_lock_path(target: Path) -> Path:
    """The file that is locked while an archive is made, and that stays where that failed."""
    return target.with_suffix(".lock")


def _has_room(folder: Path) -> bool:
    """Whether the folder can be written, and its disk has room for an archive."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _MIN_FREE_BYTES
    except OSError:
        return False


def _was_tried(target: Path) -> bool:
    """Whether another process makes it, or could not make it a short time ago."""
    try:
        return time.time() - get_lock_path(target).stat().st_mtime < _SECONDS_UNTIL_RETRY
    except OSError:
        return False
