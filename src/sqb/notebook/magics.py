"""The magics of notebooks: commands in a line, queries in a cell; what they return is shown as HTML."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from IPython.core.magic import Magics, line_cell_magic, magics_class

from sqb.api import Plan, Project, Result, Rows, error_text, show
from sqb.api.values import Difference
from sqb.cli import main
from sqb.cli.commands.inspect.diff import parse_diff_call
from sqb.cli.options import CommonOptions, parse_call, parse_variables
from sqb.cli.report import build_usage_error
from sqb.errors.base import SqbError
from sqb.errors.build import BuildFailed
from sqb.errors.call import CallError
from sqb.operations.build import BuildOptions
from sqb.operations.plan import PlanOptions

_Shown = Plan | Result | Rows | Difference


class NotebookError(Exception):
    """An error of sqb in a cell: shown as the command line explains it, without a traceback."""

    def __init__(self, error: SqbError, folder: Path) -> None:
        super().__init__(error_text(error, folder))
        self.error = error

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@magics_class
class SqbMagics(Magics):
    """`%sqb` and `%%sqb`."""

    @line_cell_magic
    def sqb(self, line: str, cell: str | None = None) -> _Shown | None:
        """`%sqb COMMAND …` runs a command; `%%sqb [NAME] [--limit N] …` runs the cell as a query and shows its rows."""
        with _explain_errors():
            if cell is not None:
                return self._run_query(shlex.split(line), cell)
            words = shlex.split(line) or ["--help"]
            run = _SHOWN.get(words[0])
            if run is None or {"--json", "--explain", "--help"} & set(words):
                code = main.run(words)
                if code:
                    raise CallError(f"sqb {words[0]} ended with exit code {code}")
                return None
            return run(_parse_command(words[0], words[1:]))

    def _run_query(self, words: list[str], sql: str) -> Rows:
        values = _parse(_QUERY, words)
        name, limit, virtual_env = (values.pop(key) for key in ("name", "limit", "virtual_env"))
        project = _open_project(CommonOptions(**values))
        project.session()  # the next cell goes on with it
        rows = project.query(sql, limit=limit, virtual_env=virtual_env)
        if name is not None and self.shell is not None:
            self.shell.user_ns[name] = rows
        return rows


@click.command("%%sqb")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(0), default=100, help="How many rows are shown.")
@click.option("--target", default=None)
@click.option("--virtual-env", default=None)
@click.option("--vars", "variables", default=None)
@click.option("--project-dir", type=click.Path(path_type=Path), default=Path("."))
def _QUERY(**values: Any) -> None:
    """The options of a cell."""


def _parse(command: click.Command, words: list[str]) -> dict[str, Any]:
    try:
        with command.make_context(command.name or "", list(words)) as context:
            return dict(context.params)
    except click.ClickException as error:
        raise build_usage_error(error) from error


def _parse_command(name: str, words: list[str]) -> Mapping[str, Any]:
    command = main.sqb.get_command(click.Context(main.sqb), name)
    assert command is not None
    return _parse(command, words)


def _open_project(common: CommonOptions) -> Project:
    return Project(common.project_dir, target=common.target, vars=parse_variables(common.variables))


def _run_plan(values: Mapping[str, Any]) -> Plan:
    common, options = parse_call(PlanOptions, _join_names(values, "explain"))
    return _open_project(common).plan(**_to_keywords(options))


def _run_build(values: Mapping[str, Any]) -> Result:
    common, options = parse_call(BuildOptions, _join_names(values, "log_format"))
    result = _open_project(common).build(listen=show, **_to_keywords(options))
    if not result.ok:
        from IPython.display import display

        display(result)  # type: ignore[no-untyped-call]
        result.raise_for_failures()
    return result


def _run_diff(values: Mapping[str, Any]) -> Difference:
    common, options = parse_diff_call(**{name: value for name, value in values.items() if name != "exit_code"})
    return _open_project(common).diff(**_to_keywords(options))


_SHOWN: Mapping[str, Callable[[Mapping[str, Any]], _Shown]] = {
    "plan": _run_plan,
    "build": _run_build,
    "run": _run_build,
    "diff": _run_diff,
}


def _join_names(values: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Options with the names that are arguments among what is selected."""
    rest = {name: value for name, value in values.items() if name not in ("names", *left_out)}
    return {**rest, "select": (*values["select"], *values["names"])}


def _to_keywords(options: Any) -> dict[str, Any]:
    return {f.name: getattr(options, f.name) for f in fields(options)}


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except BuildFailed as error:
        raise NotebookError(CallError(error.message, hint="its errors are above"), Path(".")) from None
    except SqbError as error:
        raise NotebookError(error, Path(".")) from None
