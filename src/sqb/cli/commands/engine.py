"""`sqb engine start`, `status` and `stop`: their output and exit codes."""

from __future__ import annotations

from typing import Any

from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import print_document, print_lines, print_progress
from sqb.console.engine import format_started, format_status, format_stopped
from sqb.operations.engine import (
    StartEngineOptions,
    StopEngineOptions,
    inspect_project_engine,
    start_project_engine,
    stop_project_engine,
)


def run_start(**values: Any) -> int:
    """Start the engine of a project, unless one runs that serves it."""
    common, options = parse_call(StartEngineOptions, values)
    result = start_project_engine(common.project_dir, options, print_progress)
    if common.as_json:
        print_document(result.to_data())
    else:
        print_lines([format_started(result.started)])
    return 0


def run_status(**values: Any) -> int:
    """Print the status of the engine of a project."""
    common = CommonOptions(**values)
    status = inspect_project_engine(common.project_dir, common.target)
    if common.as_json:
        print_document(status.to_data())
    else:
        print_lines(format_status(status))
    return 0 if status.is_running else 1


def run_stop(**values: Any) -> int:
    """End the engine of a project."""
    common, options = parse_call(StopEngineOptions, values)
    result = stop_project_engine(common.project_dir, options, print_progress)
    if common.as_json:
        print_document(result.to_data())
    else:
        print_lines([format_stopped(result.stopped)])
    return 0
