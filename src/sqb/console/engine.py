"""The warm engine as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqb.console.errors import format_path
from sqb.engine.start import StartedEngine
from sqb.engine.stop import StoppedEngine
from sqb.names import format_age
from sqb.operations.engine import EngineStatus, format_server

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


def format_status(inspected: EngineStatus) -> Iterator[str]:
    """What `sqb engine status` prints."""
    status, usage, server = inspected.state, inspected.usage, inspected.server
    engine = status.description
    if server is not None:
        yield f"No engine is needed: builds use {format_server(server)}."
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
        if inspected.memory is not None:
            bound = f"; Java's heap takes at most {inspected.memory_limit}" if inspected.memory_limit else ""
            yield f"It holds {inspected.memory / 2**20:,.0f} MB of memory{bound}."
    else:
        yield f"{_NEXT[status.status][:1].upper()}{_NEXT[status.status][1:]}."
    yield f"Its log is {format_path(Path(engine.log), Path.cwd())}."


def format_stopped(stopped: StoppedEngine) -> str:
    """What became of `sqb engine stop`."""
    if not stopped.was_there:
        return "No engine is running."
    return "Stopped the engine." if stopped.was_alive else "The engine had ended already; it is forgotten."
