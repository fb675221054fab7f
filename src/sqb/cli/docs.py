"""`sqb docs build|serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sqb.cli.options import COMMON, ENVIRONMENT, OptionGroup, add_options

_SAMPLE: OptionGroup = (
    click.option(
        "--sample",
        is_flag=False,
        flag_value=10,
        default=0,
        type=click.IntRange(0, 1000),
        metavar="ROWS",
        help="Show the first rows of each table: 10, or as many as are named.",
    ),
)


@click.group()
def docs() -> None:
    """Look at the project in a browser.

    The graph, models, runs, the plan, environments and sources.
    """


@docs.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Where to (default .sqb/docs).")
@add_options(_SAMPLE, ENVIRONMENT, COMMON)
def build(**values: Any) -> int:
    """Write the pages as a folder of static files.

    They open from disk, without a server or a network. With --json, print what they are made of instead.
    """
    from sqb.cli.commands.docs import run_build

    return run_build(**values)


@docs.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8580, help="The port on this machine; 0 for any (8580).")
@add_options(_SAMPLE, ENVIRONMENT, COMMON)
def serve(**values: Any) -> int:
    """Serve the pages on this machine, and renew them.

    They follow the project's files and its tables until Ctrl-C.
    """
    from sqb.cli.commands.docs import run_serve

    return run_serve(**values)
