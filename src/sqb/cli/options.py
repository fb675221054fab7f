"""The options that commands share: declared once for click, and read into one frozen value per command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqb.cli.complete import (
    complete_environments,
    complete_named_selectors,
    complete_selectors,
    complete_targets,
)
from sqb.errors.base import SqbError, SqbErrors
from sqb.errors.call import CallError
from sqb.errors.project import ProjectError
from sqb.light_dataclass import dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sqb.workspace import Workspace

_O = TypeVar("_O", bound="DataclassInstance")
OptionGroup = tuple[Callable[..., Any], ...]

PROJECT_DIR = click.option(
    "--project-dir", type=click.Path(path_type=Path), default=Path("."), help="The project's folder."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
DEBUG = click.option("--debug", is_flag=True, help="Show tracebacks of errors.")

SELECTION: OptionGroup = (
    click.option(
        "-s",
        "--select",
        multiple=True,
        metavar="SELECTOR...",
        help="Only these: x, +x, 2+x+1, @x, tag:x …",
        shell_complete=complete_selectors,
    ),
    click.option(
        "--exclude", multiple=True, metavar="SELECTOR...", help="All but these.", shell_complete=complete_selectors
    ),
    click.option(
        "--selector", metavar="NAME", help="A selection of selectors.yml.", shell_complete=complete_named_selectors
    ),
)
COMMON: OptionGroup = (
    click.option("-t", "--target", metavar="NAME", help="The target to work on.", shell_complete=complete_targets),
    PROJECT_DIR,
    click.option(
        "--vars", "variables", metavar="JSON", help="Values of @@variables, as JSON or name=value,name=value."
    ),
    AS_JSON,
    click.option("-v", "--verbose", is_flag=True, help="Every node, and what changed in it."),
    DEBUG,
)
FORCE: OptionGroup = (
    click.option("--force", is_flag=True, help="Run everything selected, whatever has changed."),
    click.option("--full-refresh", is_flag=True, help="Recompute everything selected from all of its inputs."),
)
WINDOW: OptionGroup = (
    click.option("--start-cursor", metavar="VALUE", help="Run the incremental models selected from this value on."),
    click.option("--end-cursor", metavar="VALUE", help="Run the incremental models selected up to before this value."),
)
ENVIRONMENT: OptionGroup = (
    click.option(
        "--virtual-env",
        metavar="NAME",
        help="The virtual environment (default: the target's).",
        shell_complete=complete_environments,
    ),
)
STALE: OptionGroup = (
    click.option("--include-stale-upstreams", is_flag=True, help="Add the stale models that selected ones read."),
    click.option("--changes-only", is_flag=True, help="Of what is selected, only what is stale in the environment."),
)
BREAKING: OptionGroup = (click.option("--allow-breaking", is_flag=True, help="Let columns go that other models read."),)
LOCK: OptionGroup = (
    click.option("--take-over", is_flag=True, help="Take the environment's lock from the process that holds it."),
)
ROWS: OptionGroup = (
    click.option("--csv", "as_csv", is_flag=True, help="Rows as CSV on standard output."),
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write rows to a .parquet, .csv or .jsonl file."
    ),
    click.option("--vertical", is_flag=True, help="One line for each value (default: where rows are too wide)."),
    click.option("--no-pager", is_flag=True, help="Print all at once, also what is longer than the terminal."),
)
LOG: OptionGroup = (
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="What is printed while it runs: lines, or one JSON event a line.",
    ),
)
YES: OptionGroup = (click.option("--yes", is_flag=True, help="Do not ask."),)


class WordsCommand(click.Command):
    """Reads `--select a b` as dbt does: all words up to the next option, for options that may be repeated."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        many = {o for p in self.params if isinstance(p, click.Option) and p.multiple for o in p.opts}
        end = args.index("--") if "--" in args else len(args)
        words: list[str] = []
        option = None
        for word in args[:end]:
            if word.startswith("-"):
                head = word.partition("=")[0]
                option = head if head in many else None
            elif option is not None and words[-1] != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, [*words, *args[end:]])


def add_options(*groups: OptionGroup) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add groups of options to a command."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """What all commands take: which project, and how the result is printed."""

    project_dir: Path = Path(".")
    target: str | None = None
    variables: str | None = None
    as_json: bool = False
    verbose: bool = False
    debug: bool = False

    def open_workspace(self) -> Workspace:
        """Open the project for the target."""
        from sqb.console.phase import show_phase  # `sqb --help` opens nothing
        from sqb.workspace import open_workspace

        variables = parse_variables(self.variables)
        return open_workspace(self.project_dir, self.target, variables, lambda: show_phase("compiling"))

    def open_or_explain(self, virtual_env: str | None) -> Workspace:
        """The same; where files are broken, raise also the mistakes that these hide in others."""
        try:
            return self.open_workspace()
        except ProjectError as error:
            broken: SqbError = error
        except SqbErrors as errors:
            broken = errors
        from sqb.operations.inspect.validate import Opening, ValidateOptions, find_further_errors

        opening = Opening(self.project_dir, self.target, parse_variables(self.variables))
        raise find_further_errors(opening, ValidateOptions(virtual_env), broken)


def parse_call(kind: type[_O], values: Mapping[str, Any]) -> tuple[CommonOptions, _O]:
    """Read what click has parsed into the common options and the options value of one command."""
    own = {f.name for f in fields(kind)}
    return (
        CommonOptions(**{name: value for name, value in values.items() if name not in own}),
        kind(**{name: value for name, value in values.items() if name in own}),
    )


def parse_variables(text: str | None) -> dict[str, Any]:
    """The values in `--vars`: a JSON object, or name=value pairs."""
    if not text:
        return {}
    if text.lstrip().startswith("{"):
        from sqb.operations.plan import validate_values

        try:
            values_read = json.loads(text)
        except ValueError as error:
            raise CallError(f"--vars is not JSON: {error}", hint="""write --vars '{"name": "value"}'""") from error
        validate_values(values_read)
        return dict(values_read)
    values: dict[str, Any] = {}
    for pair in re.split(r",(?=\s*\w+=)", text):
        name, equals, value = pair.strip().partition("=")
        if not equals or not name.isidentifier():
            raise CallError(f'--vars: "{pair}" is not name=value', hint="""or write --vars '{"name": "value"}'""")
        values[name] = _parse_value(value)
    return values


def _parse_value(text: str) -> Any:
    """The value of `name=value`: a number or true/false where it reads as one, else the text itself."""
    try:
        value = json.loads(text, parse_constant=lambda word: word)
    except ValueError:
        return text
    return value if isinstance(value, int | float | bool) else text
