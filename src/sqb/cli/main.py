"""The `sqb` command: options, exit codes, and errors that never are tracebacks.

Exit code 0: fine; 1: something failed or is blocked; 2: the call or the project is wrong, and nothing was run.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import click

from sqb import __version__
from sqb.cli.at_end import run_last_actions
from sqb.cli.complete import complete_nodes, complete_selectors
from sqb.cli.dbt import dbt
from sqb.cli.docs import docs
from sqb.cli.engine import engine
from sqb.cli.examples import format_examples
from sqb.cli.options import (
    AS_JSON,
    BREAKING,
    COMMON,
    DEBUG,
    ENVIRONMENT,
    FORCE,
    LOCK,
    LOG,
    ROWS,
    SELECTION,
    STALE,
    WINDOW,
    YES,
    WordsCommand,
    add_options,
)
from sqb.cli.report import build_usage_error, report_error, report_failure
from sqb.cli.state import state
from sqb.errors.call import CallError


class _Commands(click.Group):
    """Lists commands in the order of a working day, and knows their other names."""

    order: ClassVar[tuple[str, ...]] = (
        "init",
        "plan",
        "build",
        "watch",
        "load",
        "test",
        "validate",
        "lint",
        "format",
        "list",
        "compile",
        "lineage",
        "diff",
        "promote",
        "rollback",
        "query",
        "show",
        "freshness",
        "history",
        "docs",
        "explain",
        "dbt",
        "state",
        "engine",
        "drop",
        "janitor",
        "lsp",
        "completion",
        "version",
    )
    aliases: ClassVar[dict[str, str]] = {"run": "build", "ls": "list"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in self.order if name in self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.aliases.get(cmd_name, cmd_name)
        command = super().get_command(ctx, name)
        if command is not None:
            command.epilog = format_examples(name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from sqb.names import suggest_nearest

        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = suggest_nearest(name, (*self.order, *self.aliases))
            raise CallError(f'there is no command "{name}"', hint=hint or "`sqb --help` lists the commands")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="sqb %(version)s")
def sqb() -> None:
    """Build SQL pipelines on Spark and Iceberg, and run only what changed."""


@sqb.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("."))
@click.option(
    "--example",
    type=click.Choice(("shop", "star")),
    help="Which example: a small shop (the default), or a star with 100,000 sales.",
)
@click.option("--empty", is_flag=True, help="Only the settings and empty folders, without the example.")
@click.option(
    "--from-dbt",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Convert the dbt project in DIR, and say what could not be converted.",
)
@add_options((AS_JSON, DEBUG))
def init(**values: Any) -> int:
    """Make an example project in FOLDER, ready to build."""
    from sqb.cli.commands.project.init import run_init

    return run_init(**values)


@sqb.command(cls=WordsCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_selectors)
@click.option("--explain", is_flag=True, help="Show one node in full: all that its decision rests on.")
@add_options(SELECTION, FORCE, WINDOW, ENVIRONMENT, STALE, BREAKING, COMMON)
def plan(**values: Any) -> int:
    """Show what a build would do, and why. Starts no Java.

    With names, only of these; `sqb plan NAME --explain` shows one node in full.
    """
    from sqb.cli.commands.build.plan import run_plan

    return run_plan(**values)


@sqb.command(cls=WordsCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_selectors)
@add_options(SELECTION, FORCE, WINDOW, ENVIRONMENT, STALE, BREAKING, LOCK)
@click.option("--concurrency", type=click.IntRange(1, 256), help="How many nodes run at once (default: by cores).")
@click.option("--fail-fast", is_flag=True, help="Start nothing more after the first failure.")
@click.option("--store-failures", is_flag=True, help="Keep the rows that fail checks, in _sqlbuild_failures.")
@click.option("--allow-data-loss", is_flag=True, help="Let full replays lose rows that the sources no longer have.")
@add_options(LOG, COMMON)
def build(**values: Any) -> int:
    """Run what changed, in parallel; `run` is the same.

    Each node runs as soon as what it reads is there. With names, only of these.
    """
    from sqb.cli.commands.build.build import run_build

    return run_build(**values)


@sqb.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_nodes)
@click.option("--concurrency", type=click.IntRange(1, 256), help="How many loaders run at once (default: by cores).")
@click.option("--fail-fast", is_flag=True, help="Start nothing more after the first failure.")
@add_options(ENVIRONMENT, LOCK, LOG, COMMON)
def load(**values: Any) -> int:
    """Run loaders alone: all, or those named.

    They are called by their names or by their sources.
    """
    from sqb.cli.commands.build.build import run_load

    return run_load(**values)


@sqb.command(cls=WordsCommand)
@add_options(SELECTION)
@click.option("--force", is_flag=True, help="Run all tests selected, also those that passed and have not changed.")
@add_options(ENVIRONMENT, COMMON)
def test(**values: Any) -> int:
    """Run the unit tests that changed, or whose models did.

    `build` does so before it runs models.
    """
    from sqb.cli.commands.build.test import run_test

    return run_test(**values)


@sqb.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="How mistakes are printed."
)
@click.option("--spark", is_flag=True, help="Let Spark analyse every query too; nothing is run.")
@add_options(ENVIRONMENT, COMMON)
def validate(**values: Any) -> int:
    """Report every mistake that can be found without running.

    Starts no Java, unless --spark is given.
    """
    from sqb.cli.commands.project.validate import run_validate

    return run_validate(**values)


@sqb.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_nodes)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="How findings are printed."
)
@add_options(COMMON)
def lint(**values: Any) -> int:
    """Check models against the project's rules.

    All models, or those that are named. Starts no Java.
    """
    from sqb.cli.commands.project.lint import run_lint

    return run_lint(**values)


@sqb.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_nodes)
@click.option("--check", is_flag=True, help="Write nothing; the exit code is 1 if a file is not in its usual form.")
@click.option("--diff", is_flag=True, help="Write nothing, and show what would change.")
@add_options(COMMON)
def format(**values: Any) -> int:
    """Lay out the SQL and the headers of models.

    Of all, or of those that are named. Starts no Java.
    """
    from sqb.cli.commands.project.format import run_format

    return run_format(**values)


@sqb.command()
@add_options((DEBUG,))
def lsp(**values: Any) -> int:
    """Serve an editor by the Language Server Protocol.

    On standard input and output. Starts no Java.
    """
    from sqb.cli.commands.lsp import run_lsp

    return run_lsp()


@sqb.command("list", cls=WordsCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_selectors)
@add_options(SELECTION)
@click.option(
    "--resource-type",
    "resource_types",
    type=click.Choice(["model", "seed", "loader", "task", "asset", "check"]),
    multiple=True,
    help="Only nodes of these types.",
)
@click.option(
    "--output", "form", type=click.Choice(["name", "path", "json"]), default="name", help="What a line says of a node."
)
@click.option("--output-keys", metavar="KEYS", help="With --output json: only these keys, such as name,tags.")
@add_options(ENVIRONMENT, COMMON)
def list_command(**values: Any) -> int:
    """List nodes, one a line; `ls` is the same.

    All, or those that are named or selected. Starts no Java.
    """
    from sqb.cli.commands.inspect.list import run_list

    return run_list(**values)


@sqb.command(cls=WordsCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_selectors)
@click.option("--plan-only", is_flag=True, help="Plan at every save, and build nothing.")
@click.option("--once", is_flag=True, help="One round, without waiting for a save.")
@add_options(SELECTION, ENVIRONMENT, tuple(option for option in COMMON if option is not AS_JSON))
def watch(**values: Any) -> int:
    """Build at every save, and show which rows changed.

    What changed is built on the warm engine, all of it or what is named or selected. Ctrl-C ends it.
    """
    from sqb.cli.commands.build.watch import run_watch

    return run_watch(**values)


@sqb.command(cls=WordsCommand)
@add_options(SELECTION, ENVIRONMENT, COMMON)
def compile(**values: Any) -> int:
    """Print the SQL of models, with references resolved."""
    from sqb.cli.commands.inspect.compile import run_compile

    return run_compile(**values)


@sqb.command()
@click.argument("name", metavar="[MODEL[.COLUMN]]", required=False, shell_complete=complete_nodes)
@click.option("--mermaid", is_flag=True, help="A Mermaid flowchart instead of a tree.")
@add_options(ENVIRONMENT, COMMON)
def lineage(**values: Any) -> int:
    """Show what tables and columns are made of and used for.

    Starts no Java.
    """
    from sqb.cli.commands.inspect.lineage import run_lineage

    return run_lineage(**values)


@sqb.command()
@click.argument("sql", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), help="A file with the query; - is standard input.")
@click.option("--limit", type=click.IntRange(1), help="How many rows (default 100, with --output all).")
@add_options(ROWS, ENVIRONMENT, COMMON)
def query(**values: Any) -> int:
    """Run SQL on Spark, with the names that models use.

    Without SQL, at a terminal, a prompt that takes one query after another.
    """
    from sqb.cli.commands.inspect.query import run_query

    return run_query(**values)


@sqb.command()
@click.argument("name", metavar="[MODEL]", required=False, shell_complete=complete_nodes)
@click.option("-s", "--select", metavar="MODEL", help="The model; the same as MODEL.", shell_complete=complete_nodes)
@click.option("--inline", metavar="SQL", help="A query instead of a model.")
@click.option("--limit", type=click.IntRange(1), help="How many rows (default 5, with --output all).")
@click.option("--next-window", is_flag=True, help="Of an incremental model only what its next run adds.")
@add_options(WINDOW, ROWS, ENVIRONMENT, COMMON)
def show(**values: Any) -> int:
    """Show the rows of a model as a build would make them.

    What it reads is taken from the tables as they are, and what is not built yet from its query. Writes nothing.
    """
    from sqb.cli.commands.inspect.show import run_show

    return run_show(**values)


@sqb.command(cls=WordsCommand)
@add_options(SELECTION, ENVIRONMENT, COMMON)
def freshness(**values: Any) -> int:
    """Show how fresh the sources are, and what changed.

    Builds and records nothing.
    """
    from sqb.cli.commands.inspect.freshness import run_freshness

    return run_freshness(**values)


@sqb.command()
@click.argument("name", required=False, shell_complete=complete_nodes)
@click.option("--from", "source", metavar="NAME", help="Compare this virtual environment, in NAME or in all nodes.")
@click.option("--to", metavar="NAME", help="With --from: with this one (default: the baseline).")
@click.option("--against", metavar="TARGET", help="Compare what another target has built with what this one has.")
@click.option("--snapshot", metavar="ID", help="Compare a snapshot of the table (its id, or the run that made it).")
@click.option("--to-snapshot", metavar="ID", help="With --snapshot: compare it with this one, not with what is built.")
@click.option("--key", metavar="COLUMNS", help="Identify rows by these columns (default: the model's key).")
@click.option(
    "--limit", type=click.IntRange(0, 1000), help="How many rows of each sort to show (default 10, with --markdown 5)."
)
@click.option("--rows/--no-rows", default=None, help="Of two environments, the rows of all nodes that differ.")
@click.option("--markdown", is_flag=True, help="Markdown for a comment on a pull request, with --rows and the cost.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when there are differences.")
@add_options(COMMON)
def diff(**values: Any) -> int:
    """Compare a table with what a build would make of it now.

    Or two virtual environments; nothing is written.
    """
    from sqb.cli.commands.inspect.diff import run_diff

    return run_diff(**values)


@sqb.command(cls=WordsCommand)
@click.option("--from", "source", required=True, metavar="NAME", help="The virtual environment to promote.")
@click.option("--to", required=True, metavar="NAME", help="The virtual environment to promote to.")
@add_options(SELECTION)
@click.option("--allow-partial-promotion", is_flag=True, help="Though some models will not fit together then.")
@click.option("--include-stale-upstreams", is_flag=True, help="With what the selected models are made from.")
@click.option("--merged", is_flag=True, help="What both changed has been merged into the code of --from.")
@click.option("--dry-run", is_flag=True, help="Show what would be promoted.")
@click.option("--take-over", is_flag=True, help="Take the locks of the environments from the process that holds them.")
@add_options(COMMON)
def promote(**values: Any) -> int:
    """Make a virtual environment show what another one shows.

    Nothing is built, and no Java started.
    """
    from sqb.cli.commands.environments.promote import run_promote

    return run_promote(**values)


@sqb.command()
@click.option("--virtual-env", metavar="NAME", help="The virtual environment (default: that of the target).")
@click.option("--checkpoint", metavar="ID", help="Its id, the beginning of it, or its number (default: one back).")
@click.option("--dry-run", is_flag=True, help="Show what would change.")
@click.option("--take-over", is_flag=True, help="Take the lock of the environment from the process that holds it.")
@add_options(COMMON)
def rollback(**values: Any) -> int:
    """Make a virtual environment show what it showed before.

    Or at a checkpoint. Nothing is built.
    """
    from sqb.cli.commands.environments.promote import run_rollback

    return run_rollback(**values)


@sqb.command()
@click.argument("run_id", required=False)
@click.option("--node", metavar="NAME", help="Only runs of this node.", shell_complete=complete_nodes)
@click.option("--limit", type=click.IntRange(1), default=20, help="How many runs to show (default 20).")
@add_options(ENVIRONMENT, COMMON)
def history(**values: Any) -> int:
    """Show the runs of this target, newest first.

    With RUN_ID, what one run did.
    """
    from sqb.cli.commands.inspect.history import run_history

    return run_history(**values)


@sqb.command()
@click.argument("code", required=False)
@add_options((AS_JSON, DEBUG))
def explain(**values: Any) -> int:
    """Say what an error means, and what to do: SQB-R002.

    Without CODE, list all errors.
    """
    from sqb.cli.commands.help.explain import run_explain

    return run_explain(values["code"], values["as_json"])


@sqb.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--dry-run", is_flag=True, help="Only say what would be dropped.")
@add_options(YES, COMMON)
def drop(**values: Any) -> int:
    """Drop tables of models that are gone.

    All of them, or those that are named; asks first. Never what sqb did not make. Starts no Java.
    """
    from sqb.cli.commands.lake.drop import run_drop

    return run_drop(**values)


@sqb.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go, and how much that frees.")
@add_options(COMMON)
def janitor(**values: Any) -> int:
    """Remove what is not needed any more.

    Leftovers of killed builds, old snapshots, old history. Starts no Java.
    """
    from sqb.cli.commands.lake.janitor import run_janitor

    return run_janitor(**values)


@sqb.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@add_options((DEBUG,))
def completion(**values: Any) -> int:
    """Print a script that completes names in a shell.

    For bash: eval "$(sqb completion bash)" in ~/.bashrc.
    """
    from sqb.cli.commands.help.completion import run_completion

    return run_completion(values["shell"], sqb)


@sqb.command()
@add_options((AS_JSON, DEBUG))
def version(**values: Any) -> int:
    """Show the versions of sqb and of what it works with."""
    from sqb.cli.commands.help.version import run_version

    return run_version(values["as_json"])


sqb.add_command(dbt)
sqb.add_command(docs)
sqb.add_command(engine)
sqb.add_command(state)


def main() -> None:
    """Run the command line and exit with its code."""
    # Nothing is left to clean up, and tearing the interpreter down takes longer than a no-op build.
    os._exit(run_process(sys.argv[1:]))


def run_process(arguments: list[str]) -> int:
    """Run one command as all that its process does, and return the exit code when all output is written."""
    _configure_utf8()
    code = run(arguments)
    with suppress(Exception):
        run_last_actions()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Whoever read the output, such as `head`, has seen enough.
            code = code or 1
    return code


def _configure_utf8() -> None:
    """Names, arrows and dashes are printed whatever the locale says; a missing stream is discarded."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and (stream.encoding or "").lower().replace("-", "") != "utf8":
            reconfigure(encoding="utf-8", errors="replace")


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors are printed."""
    if "_SQB_COMPLETE" in os.environ:
        from sqb.cli.commands.help.completion import register_bash  # a shell asks

        register_bash()
    try:
        result = sqb.main(arguments, prog_name="sqb", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 0
    except click.ClickException as error:
        return report_error(build_usage_error(error), arguments, error)
    except (KeyboardInterrupt, click.Abort):
        print("Interrupted.", file=sys.stderr)
        return 1
    except SystemExit as stop:  # click ends a process whose reader, such as `head`, has seen enough
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        return report_failure(error, arguments)
