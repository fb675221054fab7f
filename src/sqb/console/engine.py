"""The warm engine as lines of text and as JSON; its token is in neither."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.console.errors import format_path
from sqb.engine.start import StartedEngine
from sqb.engine.status import EngineState, Usage
from sqb.engine.stop import StoppedEngine
from sqb.names import format_age

_SHORT = {
    "starting": "The engine is starting.",
    "stopped": "No engine is running: builds start Spark themselves. `sqb engine start` starts one.",
}
_NEXT = {
    "dead": "the next build replaces it, `sqb engine stop` forgets it",
    "stale": "the next build replaces it",
    "other": "builds start Spark themselves",
}


def format_started(started: StartedEngine) -> str:
    """What became of `sqb engine start`."""
    engine = started.description
    idle = format_age(engine.idle)
    if not started.is_new:
        return f"The engine is running already (connection {engine.connection}, pid {engine.pid})."
    instead = f" in the place of another ({started.replaced_reason})" if started.replaced_reason else ""
    return (
        f"Started the engine{instead}: connection {engine.connection}, pid {engine.pid}."
        f" It ends after {idle} without work, or with `sqb engine stop`."
    )


def format_status(status: EngineState, usage: Usage | None, server: str | None = None) -> Iterator[str]:
    """What `sqb engine status` prints; `server` is a connection that works on one that runs already."""
    engine = status.description
    if server is not None:
        yield f"No engine is needed: builds use {_format_server(server)}."
        if engine is not None:
            yield f"There is one of the connection {engine.connection} (pid {engine.pid}, port {engine.port})."
        return
    if engine is None or usage is None:
        yield _SHORT.get(status.status, status.status)
        return
    state = "The engine is running" if status.status == "running" else f"The engine cannot be used: {status.reason}"
    yield f"{state} (connection {engine.connection}, pid {engine.pid}, port {engine.port})."
    if status.status == "running":
        work = "a build works with it" if usage.in_use else f"idle for {format_age(usage.idle)}"
        yield f"Started {format_age(usage.age)} ago; {work}; it ends after {format_age(engine.idle)} without work."
    else:
        yield f"{_NEXT[status.status][:1].upper()}{_NEXT[status.status][1:]}."
    yield f"Its log is {format_path(Path(engine.log), Path.cwd())}."


def format_stopped(stopped: StoppedEngine) -> str:
    """What became of `sqb engine stop`."""
    if not stopped.was_there:
        return "No engine is running."
    return "Stopped the engine." if stopped.was_alive else "The engine had ended already; it is forgotten."


def _format_server(connection: str) -> str:
    return f"the Spark Connect server of the connection {connection}, which runs already"


def encode_engine(status: EngineState, usage: Usage | None, server: str | None = None) -> dict[str, Any]:
    """The engine as a JSON value; `server` as for `format_status`."""
    engine = status.description
    why = status.reason if server is None else f"builds use {_format_server(server)}"
    data: dict[str, Any] = {"status": status.status, "why": why or None}
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
        "sqb": engine.sqb,
        "pyspark": engine.pyspark,
        "log": engine.log,
    }
