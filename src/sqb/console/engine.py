"""The warm engine as lines of text and as JSON; its token is in neither."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.console.errors import shown_path
from sqb.names import human_age
from sqb.warm.starting import Started
from sqb.warm.state import Found, Usage
from sqb.warm.stopping import Stopped

_SHORT = {
    "starting": "The engine is starting.",
    "stopped": "No engine is running: builds start Spark themselves. `sqb engine start` starts one.",
}
_NEXT = {
    "dead": "the next build replaces it, `sqb engine stop` forgets it",
    "stale": "the next build replaces it",
    "other": "builds start Spark themselves",
}


def started_line(started: Started) -> str:
    """What became of `sqb engine start`."""
    engine = started.description
    idle = human_age(engine.idle)
    if not started.is_new:
        return f"The engine is running already (connection {engine.connection}, pid {engine.pid})."
    instead = f" in the place of another ({started.instead})" if started.instead else ""
    return (
        f"Started the engine{instead}: connection {engine.connection}, pid {engine.pid}."
        f" It ends after {idle} without work, or with `sqb engine stop`."
    )


def status_lines(found: Found, used: Usage | None, server: str | None = None) -> Iterator[str]:
    """What `sqb engine status` prints; `server` is a connection that works on one that runs already."""
    engine = found.description
    if server is not None:
        yield f"No engine is needed: builds use {_server(server)}."
        if engine is not None:
            yield f"There is one of the connection {engine.connection} (pid {engine.pid}, port {engine.port})."
        return
    if engine is None or used is None:
        yield _SHORT.get(found.status, found.status)
        return
    state = "The engine is running" if found.status == "running" else f"The engine is of no use: {found.why}"
    yield f"{state} (connection {engine.connection}, pid {engine.pid}, port {engine.port})."
    if found.status == "running":
        work = "a build works with it" if used.in_use else f"idle for {human_age(used.idle)}"
        yield f"Started {human_age(used.age)} ago; {work}; it ends after {human_age(engine.idle)} without work."
    else:
        yield f"{_NEXT[found.status][:1].upper()}{_NEXT[found.status][1:]}."
    yield f"Its log is {shown_path(Path(engine.log), Path.cwd())}."


def stopped_line(stopped: Stopped) -> str:
    """What became of `sqb engine stop`."""
    if not stopped.was_there:
        return "No engine is running."
    return "Stopped the engine." if stopped.was_alive else "The engine had ended already; it is forgotten."


def _server(connection: str) -> str:
    return f"the Spark Connect server of the connection {connection}, which runs already"


def engine_data(found: Found, used: Usage | None, server: str | None = None) -> dict[str, Any]:
    """The engine as a JSON value; `server` as for `status_lines`."""
    engine = found.description
    why = found.why if server is None else f"builds use {_server(server)}"
    data: dict[str, Any] = {"status": found.status, "why": why or None}
    if engine is None or used is None:
        return data
    return {
        **data,
        "connection": engine.connection,
        "pid": engine.pid,
        "server_pid": engine.server_pid,
        "port": engine.port,
        "started_at": datetime.fromtimestamp(engine.since, UTC).isoformat(timespec="seconds"),
        "in_use": used.in_use,
        "idle_seconds": round(used.idle, 1),
        "idle_timeout": engine.idle,
        "sqb": engine.sqb,
        "pyspark": engine.pyspark,
        "log": engine.log,
    }
