"""`sqb state init|show|adopt|pair|migrate|detach|reattach|remove|checkpoints`."""

from __future__ import annotations

from typing import Any

import click

from sqb.cli.options import COMMON, LOCK, YES, add_options


@click.group()
def state() -> None:
    """Look at virtual environments and their database."""


@state.command("init")
@add_options(COMMON)
def init(**values: Any) -> int:
    """Set the database of virtual environments up.

    A DuckDB file needs no such thing.
    """
    from sqb.cli.commands.environments.state import run_init

    return run_init(**values)


@state.command("show")
@click.option("--virtual-env", metavar="NAME", help="One environment, with everything that it shows.")
@add_options(COMMON)
def show(**values: Any) -> int:
    """List the virtual environments, or show one."""
    from sqb.cli.commands.environments.state import run_show

    return run_show(**values)


@state.command("adopt")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken.")
@add_options(YES, LOCK, COMMON)
def adopt(**values: Any) -> int:
    """Take tables of before into the baseline, with all rows.

    Those that were built before there were environments.
    """
    from sqb.cli.commands.environments.state import run_adopt

    return run_adopt(**values)


@state.command("pair")
@add_options(YES, COMMON)
def pair(**values: Any) -> int:
    """Let this lake and this state belong together.

    For where the state that the lake belonged to is lost.
    """
    from sqb.cli.commands.environments.state import run_pair

    return run_pair(**values)


@state.command("migrate")
@add_options(COMMON)
def migrate(**values: Any) -> int:
    """Bring the database of an older sqb to this one's version."""
    from sqb.cli.commands.environments.state import run_migrate

    return run_migrate(**values)


@state.command("detach")
@click.argument("name")
@add_options(LOCK, COMMON)
def detach(**values: Any) -> int:
    """Refuse changes of an environment until it is reattached.

    Builds, promotions and rollbacks of it.
    """
    from sqb.cli.commands.environments.state import run_detach

    return run_detach(**values)


@state.command("reattach")
@click.argument("name")
@add_options(LOCK, COMMON)
def reattach(**values: Any) -> int:
    """Allow builds and promotions of an environment again."""
    from sqb.cli.commands.environments.state import run_reattach

    return run_reattach(**values)


@state.command("remove")
@click.argument("name")
@click.option(
    "--force", is_flag=True, help="Also where others have it as their baseline: they forget where they agreed."
)
@add_options(YES, LOCK, COMMON)
def remove(**values: Any) -> int:
    """Take an environment away, with its views.

    And its checkpoints; tables that others share stay.
    """
    from sqb.cli.commands.environments.state import run_remove

    return run_remove(**values)


@state.command("checkpoints")
@click.argument("words", nargs=-1, metavar="[list | show ID | diff ID ID]")
@click.option("--virtual-env", metavar="NAME", help="Only of this environment; where numbers are of (default: target).")
@add_options(COMMON)
def checkpoints(**values: Any) -> int:
    """List checkpoints, show one, or compare two.

    An ID may be shortened, or be a number.
    """
    from sqb.cli.commands.environments.state import run_checkpoints

    return run_checkpoints(**values)
