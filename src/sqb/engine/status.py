"""Looking at the engine of a project: whether there is one, whether it lives, and whether it serves a build."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqb.engine.descriptor import EngineDescriptor, get_path, read_descriptor
from sqb.engine.locks import is_claimed, is_supervised
from sqb.engine.settings_hash import EngineRequirements

Status = Literal["running", "starting", "stopped", "dead", "stale", "other"]
_SECONDS_TO_ANSWER = 2.0


@dataclass(frozen=True, slots=True)
class EngineState:
    """The engine of a project; `why` says what keeps a build from using it.

    running   a build uses it
    starting  another process is starting one
    stopped   there is none
    dead      it ended without being asked to
    stale     it runs with settings or versions that are no longer those of the project
    other     it is of another connection, or runs on another machine, and is none of this build's business
    """

    status: Status
    description: EngineDescriptor | None = None
    reason: str = ""


def inspect_engine(folder: Path, requirements: EngineRequirements) -> EngineState:
    """The engine whose files are in `folder`, as a build that wants one finds it."""
    descriptor = read_descriptor(get_path(folder))
    if descriptor is None:
        return EngineState("starting" if is_supervised(folder) else "stopped")
    if not is_supervised(folder):
        return EngineState("dead", descriptor, "its process is gone")
    if not descriptor.is_here:
        return EngineState("other", descriptor, f"it runs on another machine, {descriptor.machine}")
    if descriptor.connection != requirements.connection:
        return EngineState("other", descriptor, f"it is of the connection {descriptor.connection}")
    if not is_listening(descriptor.port):
        return EngineState("dead", descriptor, "its Spark does not answer")
    why = _explain_staleness(descriptor, requirements)
    return EngineState("stale", descriptor, why) if why else EngineState("running", descriptor)


def _explain_staleness(descriptor: EngineDescriptor, requirements: EngineRequirements) -> str:
    for name, has, wants in (
        ("sqb", descriptor.sqb, requirements.sqb),
        ("PySpark", descriptor.pyspark, requirements.pyspark),
    ):
        if has != wants:
            return f"it is of {name} {has}, and this is {wants}"
    return "it was started with other settings" if descriptor.settings != requirements.settings else ""


def is_listening(port: int) -> bool:
    """Whether a server listens at a port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS_TO_ANSWER):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Usage:
    """Whether builds use an engine, and for how many seconds it has been idle and has run."""

    in_use: bool
    idle: float
    age: float


def read_usage(folder: Path, state: EngineState) -> Usage | None:
    """How an engine is used; None when there is none."""
    if state.description is None:
        return None
    now = time.time()
    age = max(0.0, now - state.description.since)
    try:
        descriptor = os.open(get_path(folder), os.O_RDONLY)
    except OSError:
        return Usage(False, 0.0, age)
    try:
        in_use = is_claimed(descriptor)
        return Usage(in_use, 0.0 if in_use else max(0.0, now - os.fstat(descriptor).st_mtime), age)
    finally:
        os.close(descriptor)
