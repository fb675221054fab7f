"""The warm engine of a project: started, looked at and stopped. It needs the project's settings, none of its models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.engine.memory import measure_memory
from sqb.engine.process_identity import is_alive
from sqb.engine.settings_hash import compute_requirements, read_memory_limit
from sqb.engine.start import StartedEngine, start_engine
from sqb.engine.status import EngineState, Usage, inspect_engine, read_usage
from sqb.engine.stop import StoppedEngine, stop_engine
from sqb.errors.call import CallError
from sqb.names import parse_duration
from sqb.project.files import find_root
from sqb.workspace import ProjectHome, open_project_home

_MIN_IDLE = 1.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StartEngineOptions:
    """How an engine is started."""

    target: str | None = None
    idle_timeout: str = "30m"

    @property
    def idle_seconds(self) -> float:
        idle = parse_duration(self.idle_timeout)
        if idle is None or idle < _MIN_IDLE:
            raise CallError(
                f'--idle-timeout: "{self.idle_timeout}" is not a duration of a second or more',
                hint="write one such as 30m, 2h or 1h30m",
            )
        return idle


@dataclass(frozen=True, slots=True)
class StopEngineOptions:
    """How an engine is stopped: when its builds have finished, or now."""

    now: bool = False


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine of a project, and who uses it; `server` is a connection to a Spark that runs already."""

    state: EngineState
    usage: Usage | None
    server: str | None = None
    # Bytes that the engine holds, and Java's own bound, as it is written in Spark's settings.
    memory: int | None = None
    memory_limit: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether builds use the engine."""
        return self.state.status == "running" and self.server is None

    def to_data(self) -> dict[str, Any]:
        """What `sqb engine status --json` prints; the engine's token is not in it."""
        engine, usage = self.state.description, self.usage
        why = self.state.reason if self.server is None else f"builds use {format_server(self.server)}"
        data: dict[str, Any] = {"status": self.state.status, "why": why or None}
        if engine is None or usage is None:
            return data
        return {
            **data,
            "connection": engine.connection,
            "pid": engine.pid,
            "server_pid": engine.server_pid,
            "port": engine.port,
            "started_at": datetime.fromtimestamp(engine.since, UTC).isoformat(timespec="seconds"),
            "in_use": usage.in_use,
            "idle_seconds": round(usage.idle, 1),
            "idle_timeout": engine.idle,
            "memory_bytes": self.memory,
            "memory_limit": self.memory_limit,
            "sqb": engine.sqb,
            "pyspark": engine.pyspark,
            "log": engine.log,
        }


@dataclass(frozen=True, slots=True)
class EngineStart:
    """An engine that runs now, and whether it was started for that."""

    started: StartedEngine
    status: EngineStatus

    def to_data(self) -> dict[str, Any]:
        """What `sqb engine start --json` prints."""
        return {**self.status.to_data(), "started": self.started.is_new}


@dataclass(frozen=True, slots=True)
class EngineStop:
    """An engine that does not run any more, if there was one."""

    stopped: StoppedEngine

    def to_data(self) -> dict[str, Any]:
        """What `sqb engine stop --json` prints."""
        return {"status": "stopped", "stopped": self.stopped.was_there}


def start_project_engine(folder: Path, options: StartEngineOptions, report: Report) -> EngineStart:
    """Start the engine of the project at or above a folder, unless one runs that serves it."""
    idle = options.idle_seconds
    home = open_project_home(folder, options.target)
    started = start_engine(home, options.target, idle, report)
    return EngineStart(started, _inspect_home(home))


def inspect_project_engine(folder: Path, target: str | None) -> EngineStatus:
    """The status of the engine of the project at or above a folder."""
    home = open_project_home(folder, target)
    server = home.connection.name if home.connection.spark.remote else None
    status = _inspect_home(home)
    return replace(status, server=server)


def stop_project_engine(folder: Path, options: StopEngineOptions, report: Report) -> EngineStop:
    """Stop the engine of the project at or above a folder."""
    # What the project says is of no interest, and may be wrong.
    return EngineStop(stop_engine(find_root(folder) / ".sqb", options.now, report))


def _inspect_home(home: ProjectHome) -> EngineStatus:
    state = inspect_engine(home.folder, compute_requirements(home))
    engine = state.description
    is_here = engine is not None and engine.is_here and is_alive(engine.pid, engine.born)
    return EngineStatus(
        state,
        read_usage(home.folder, state),
        memory=measure_memory(engine.pid) if engine is not None and is_here else None,
        memory_limit=read_memory_limit(home.connection, home.lake_location),
    )


def format_server(connection: str) -> str:
    """The server that a connection works on, in words."""
    return f"the Spark Connect server of the connection {connection}, which runs already"
