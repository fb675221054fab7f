"""`sqb engine start`, `status` and `stop`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sqb.console.engine import encode_engine, format_started, format_status, format_stopped
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.start import start_engine
from sqb.engine.status import inspect_engine, read_usage
from sqb.engine.stop import stop_engine
from sqb.errors.call import CallError
from sqb.names import parse_duration
from sqb.project.files import find_root
from sqb.workspace import open_project_home

_MIN_IDLE = 1.0


def run_start(idle_timeout: str, project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """Start the engine of a project, unless one runs that serves it."""
    idle = parse_duration(idle_timeout)
    if idle is None or idle < _MIN_IDLE:
        raise CallError(
            f'--idle-timeout: "{idle_timeout}" is not a duration of a second or more',
            hint="write one such as 30m, 2h or 1h30m",
        )
    workspace = open_project_home(project_dir, target)
    started = start_engine(workspace, target, idle, _print_progress)
    status = inspect_engine(workspace.folder, compute_requirements(workspace))
    if as_json:
        _print_document({**encode_engine(status, read_usage(workspace.folder, status)), "started": started.is_new})
    else:
        print(format_started(started))
    return 0


def run_status(project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """Say how it is with the engine of a project."""
    workspace = open_project_home(project_dir, target)
    status = inspect_engine(workspace.folder, compute_requirements(workspace))
    used_by = read_usage(workspace.folder, status)
    server = workspace.connection.name if workspace.connection.spark.remote else None
    if as_json:
        _print_document(encode_engine(status, used_by, server))
    else:
        for line in format_status(status, used_by, server):
            print(line)
    return 0 if status.status == "running" and server is None else 1


def run_stop(now: bool, project_dir: Path, target: str | None, as_json: bool, debug: bool) -> int:
    """End the engine of a project."""
    # What the project says is of no interest, and may be wrong.
    stopped = stop_engine(find_root(project_dir) / ".sqb", now, _print_progress)
    if as_json:
        _print_document({"status": "stopped", "stopped": stopped.was_there})
    else:
        print(format_stopped(stopped))
    return 0


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_document(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
