"""Looking at the engine of a project: whether there is one, whether it lives, and whether it serves a build."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqb.warm.description import Description, path_in, read
from sqb.warm.locks import is_claimed, is_place_taken
from sqb.warm.wanted import Wanted

Status = Literal["running", "starting", "stopped", "dead", "stale", "other"]
_SECONDS_TO_ANSWER = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    """The engine of a project; `why` says what keeps a build from using it.

    running   a build uses it
    starting  somebody is starting one
    stopped   there is none
    dead      it ended without being asked to
    stale     it runs with settings or versions that are no longer those of the project
    other     it is of another connection, or runs on another machine, and is none of this build's business
    """

    status: Status
    description: Description | None = None
    why: str = ""


def look(folder: Path, wanted: Wanted) -> Found:
    """The engine whose files are in `folder`, as a build that wants one finds it."""
    found = read(path_in(folder))
    if found is None:
        return Found("starting" if is_place_taken(folder) else "stopped")
    if not is_place_taken(folder):
        return Found("dead", found, "its process is gone")
    if not found.is_here:
        return Found("other", found, f"it runs on another machine, {found.machine}")
    if found.connection != wanted.connection:
        return Found("other", found, f"it is of the connection {found.connection}")
    if not answers(found.port):
        return Found("dead", found, "its Spark does not answer")
    why = _why_stale(found, wanted)
    return Found("stale", found, why) if why else Found("running", found)


def _why_stale(found: Description, wanted: Wanted) -> str:
    for name, has, wants in (("sqb", found.sqb, wanted.sqb), ("PySpark", found.pyspark, wanted.pyspark)):
        if has != wants:
            return f"it is of {name} {has}, and this is {wants}"
    return "it was started with other settings" if found.settings != wanted.settings else ""


def answers(port: int) -> bool:
    """Whether a server listens at a port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS_TO_ANSWER):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Usage:
    """Whether anybody works with an engine; for how many seconds nobody has, and how many it runs."""

    in_use: bool
    idle: float
    age: float


def usage(folder: Path, found: Found) -> Usage | None:
    """How an engine is used; None when there is none."""
    if found.description is None:
        return None
    now = time.time()
    age = max(0.0, now - found.description.since)
    try:
        descriptor = os.open(path_in(folder), os.O_RDONLY)
    except OSError:
        return Usage(False, 0.0, age)
    try:
        in_use = is_claimed(descriptor)
        return Usage(in_use, 0.0 if in_use else max(0.0, now - os.fstat(descriptor).st_mtime), age)
    finally:
        os.close(descriptor)
