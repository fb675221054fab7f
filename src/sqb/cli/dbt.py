"""`sqb dbt plan|build|run|test|seed|snapshot|compile`: options, most of them dbt's and handed on to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sqb.cli.options import AS_JSON, DEBUG, OptionGroup, WordsCommand, add_options

_SELECTION: OptionGroup = (
    click.option("-s", "-m", "--select", "--models", "--model", "select", multiple=True, help="What dbt is to select."),
    click.option("--exclude", multiple=True, help="What dbt is to leave out of that."),
    click.option("--selector", help="A selector of the dbt project's selectors.yml."),
    click.option("--indirect-selection", help="Which tests go with what is selected."),
    click.option("--state", help="The folder of the manifest that state: compares with."),
    click.option("-t", "--target", help="The target of dbt's profile; also of sqb, where it has one of that name."),
    click.option("--profile", help="The profile that dbt is to use."),
    click.option("--vars", metavar="YAML", help="Variables of the dbt project."),
    click.option("--defer", is_flag=True, help="Let dbt read what it does not run where the state has it."),
    click.option("--favor-state", is_flag=True, help="With --defer: also where it exists in dbt's own target."),
    click.option("--defer-state", metavar="FOLDER", help="The state of --defer, where it is not that of --state."),
)
_TYPES: OptionGroup = (
    click.option("--resource-type", "resource_types", multiple=True, help="Only resources of these types."),
    click.option("--exclude-resource-type", "exclude_resource_types", multiple=True, help="None of these types."),
)
_REFRESH: OptionGroup = (
    click.option("-f", "--full-refresh", is_flag=True, help="Run everything selected, incremental models in full."),
)
_EMPTY: OptionGroup = (
    click.option("--empty", is_flag=True, help="Let dbt build without rows; the next build makes it good."),
)
_RUNNING: OptionGroup = (
    click.option("--threads", type=click.IntRange(1), help="How many nodes dbt runs at once."),
    click.option("-x", "--fail-fast", is_flag=True, help="Let dbt start nothing more after the first failure."),
    click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- DBT OPTIONS]"),
)
_COMMON: OptionGroup = (
    click.option("--sqb-target", metavar="NAME", help="The target of the sqb models beside dbt."),
    click.option("--project-dir", type=click.Path(path_type=Path), default=Path("."), help="The sqb project's folder."),
    AS_JSON,
    click.option("-v", "--verbose", is_flag=True, help="Every node."),
    DEBUG,
)


@click.group()
def dbt() -> None:
    """Run of an existing dbt project only what changed.

    Then the sqb models that read it.
    """


@dbt.command("plan", cls=WordsCommand)
@add_options(_SELECTION, _TYPES, _REFRESH, _COMMON)
def dbt_plan(**values: Any) -> int:
    """Show what `sqb dbt build` would run, and why.

    Starts no Java.
    """
    from sqb.cli.commands.dbt import run_plan

    return run_plan(**values)


@dbt.command("build", cls=WordsCommand)
@add_options(_SELECTION, _TYPES, _REFRESH, _EMPTY, _RUNNING, _COMMON)
def dbt_build(**values: Any) -> int:
    """Let dbt build what changed.

    Models, seeds, snapshots and tests.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_verb

    return run_verb("build", **values)


@dbt.command("run", cls=WordsCommand)
@add_options(_SELECTION, _TYPES, _REFRESH, _EMPTY, _RUNNING, _COMMON)
def dbt_run(**values: Any) -> int:
    """Let dbt run the models that changed.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_verb

    return run_verb("run", **values)


@dbt.command("test", cls=WordsCommand)
@add_options(_SELECTION, _TYPES, _RUNNING, _COMMON)
def dbt_test(**values: Any) -> int:
    """Let dbt run tests, also those that have passed.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_verb

    return run_verb("test", **values)


@dbt.command("seed", cls=WordsCommand)
@add_options(_SELECTION, _REFRESH, _RUNNING, _COMMON)
def dbt_seed(**values: Any) -> int:
    """Let dbt load the seeds that changed.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_verb

    return run_verb("seed", **values)


@dbt.command("snapshot", cls=WordsCommand)
@add_options(_SELECTION, _EMPTY, _RUNNING, _COMMON)
def dbt_snapshot(**values: Any) -> int:
    """Let dbt take the snapshots that are due.

    Those that changed, or whose inputs did.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_verb

    return run_verb("snapshot", **values)


@dbt.command("compile", cls=WordsCommand)
@add_options(_SELECTION, _REFRESH, _EMPTY, _RUNNING, _COMMON)
def dbt_compile(**values: Any) -> int:
    """Let dbt compile what is selected; nothing is built.

    Options after -- go to dbt as they are.
    """
    from sqb.cli.commands.dbt import run_compile

    return run_compile(**values)
