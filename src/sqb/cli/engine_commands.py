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


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_COMMON):
        command = option(command)
    return command


@click.group()
def engine() -> None:
    """Keep Spark running between builds, so that a build after an edit does not wait for its start."""


@engine.command()
@click.option("--idle-timeout", default="30m", metavar="DURATION", help="End it after so long without work (30m).")
@_common
def start(idle_timeout: str, **given: Any) -> int:
    """Start Spark for the project, and leave it running; builds use it from then on."""
    from sqb.cli.engine import run_start

    return run_start(idle_timeout, **given)


@engine.command()
@_common
def status(**given: Any) -> int:
    """Say whether an engine runs that builds use; exit code 1 when none does."""
    from sqb.cli.engine import run_status

    return run_status(**given)


@engine.command()
@click.option("--now", is_flag=True, help="Do not wait for builds that work with it: they fail.")
@_common
def stop(now: bool, **given: Any) -> int:
    """End the engine, when the builds that work with it have finished."""
    from sqb.cli.engine import run_stop

    return run_stop(now, **given)
