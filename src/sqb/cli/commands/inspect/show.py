"""`sqb show`: its output."""

from __future__ import annotations

from typing import Any

from sqb.cli.commands.inspect.rows import print_rows, split_form
from sqb.cli.options import parse_call
from sqb.cli.output import create_spark
from sqb.console.phase import show_waiting
from sqb.errors.call import CallError
from sqb.operations.inspect.show import ShowOptions, show_rows

_DEFAULT_LIMIT = 5


def run_show(name: str | None, select: str | None, limit: int | None, **values: Any) -> int:
    """Print rows of a model as a build would make them, or of a query over such."""
    if name is not None and select is not None:
        raise CallError("MODEL and --select name two models", hint="give one of them")
    form, rest = split_form(values)
    if limit is None and values["output"] is None:
        limit = _DEFAULT_LIMIT
    common, options = parse_call(ShowOptions, {**rest, "name": name or select, "limit": limit})
    workspace = common.open_workspace()
    with show_waiting() as show:
        result = show_rows(workspace, options, create_spark(workspace, "show_"), show)
    print_rows(result, form, common)
    return 0
