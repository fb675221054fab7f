"""`sqb engine start`, `status` and `stop`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sqb.console.engine import engine_data, started_line, status_lines, stopped_line
from sqb.errors import CallError
from sqb.names import duration_seconds
from sqb.project.files import find_root
from sqb.warm.starting import start
from sqb.warm.state import look, usage
from sqb.warm.stopping import stop
from sqb.warm.wanted import wanted_by
from sqb.workspace import open_home

_LEAST_IDLE = 1.0


def run_start(idle_timeout: str, project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """Start the engine of a project, unless one runs that serves it."""
    idle = duration_seconds(idle_timeout)
    if idle is None or idle < _LEAST_IDLE:
        raise CallError(
            f'--idle-timeout: "{idle_timeout}" is not a duration of a second or more',
            hint="write one such as 30m, 2h or 1h30m",
        )
    workspace = open_home(project_dir, target)
    started = start(workspace, target, idle, _tell)
    found = look(workspace.folder, wanted_by(workspace))
    if as_json:
        _print({**engine_data(found, usage(workspace.folder, found)), "started": started.is_new})
    else:
        print(started_line(started))
    return 0


def run_status(project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """Say how it is with the engine of a project."""
    workspace = open_home(project_dir, target)
    found = look(workspace.folder, wanted_by(workspace))
    used = usage(workspace.folder, found)
    server = workspace.connection.name if workspace.connection.spark.remote else None
    if as_json:
        _print(engine_data(found, used, server))
    else:
        for line in status_lines(found, used, server):
            print(line)
    return 0 if found.status == "running" and server is None else 1


def run_stop(now: bool, project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """End the engine of a project."""
    # What the project says is of no interest, and may be wrong.
    stopped = stop(find_root(project_dir) / ".sqb", now, _tell)
    if as_json:
        _print({"status": "stopped", "stopped": stopped.was_there})
    else:
        print(stopped_line(stopped))
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
