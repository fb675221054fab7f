"""`sqb engine start|status|stop`."""

from __future__ import annotations

from typing import Any

import click

from sqb.cli.options import AS_JSON, DEBUG, PROJECT_DIR, OptionGroup, add_options

_COMMON: OptionGroup = (
    click.option("-t", "--target", metavar="NAME", help="The target whose connection it is for."),
    PROJECT_DIR,
    AS_JSON,
    DEBUG,
)


@click.group()
def engine() -> None:
    """Keep Spark running between builds.

    A build after an edit does not wait for its start.
    """


@engine.command()
@click.option("--idle-timeout", default="30m", metavar="DURATION", help="End it after so long without work (30m).")
@add_options(_COMMON)
def start(**values: Any) -> int:
    """Start Spark for the project, and leave it running.

    Builds use it from then on.
    """
    from sqb.cli.commands.engine import run_start

    return run_start(**values)


@engine.command()
@add_options(_COMMON)
def status(**values: Any) -> int:
    """Say whether an engine runs that builds use.

    The exit code is 1 when none does.
    """
    from sqb.cli.commands.engine import run_status

    return run_status(**values)


@engine.command()
@click.option("--now", is_flag=True, help="Do not wait for builds that work with it: they fail.")
@add_options(_COMMON)
def stop(**values: Any) -> int:
    """End the engine, when the builds with it have finished."""
    from sqb.cli.commands.engine import run_stop

    return run_stop(**values)
