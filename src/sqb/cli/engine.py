"""`sqb engine start|status|stop`: their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_COMMON = (
    click.option("--target", metavar="NAME", help="The target whose connection it is for."),
    click.option("--project-dir", type=click.Path(path_type=Path), default=Path("."), help="The project's folder."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output."),
    click.option("--debug", is_flag=True, help="Show tracebacks of errors."),
)


def _add_common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_COMMON):
        command = option(command)
    return command


@click.group()
def engine() -> None:
    """Keep Spark running between builds, so that a build after an edit does not wait for its start."""


@engine.command()
@click.option("--idle-timeout", default="30m", metavar="DURATION", help="End it after so long without work (30m).")
@_add_common_options
def start(idle_timeout: str, **arguments: Any) -> int:
    """Start Spark for the project, and leave it running; builds use it from then on."""
    from sqb.cli.run_engine import run_start

    return run_start(idle_timeout, **arguments)


@engine.command()
@_add_common_options
def status(**arguments: Any) -> int:
    """Say whether an engine runs that builds use; exit code 1 when none does."""
    from sqb.cli.run_engine import run_status

    return run_status(**arguments)


@engine.command()
@click.option("--now", is_flag=True, help="Do not wait for builds that work with it: they fail.")
@_add_common_options
def stop(now: bool, **arguments: Any) -> int:
    """End the engine, when the builds that work with it have finished."""
    from sqb.cli.run_engine import run_stop

    return run_stop(now, **arguments)
