"""`sqb diff`: its output and exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import DEFAULT_WIDTH, create_spark, print_document, print_lines
from sqb.console.environments.diff import format_difference, format_environment_diff
from sqb.console.inspect.diff import format_diff
from sqb.console.style import Paint, get_terminal_width
from sqb.errors.call import CallError
from sqb.names import format_seconds
from sqb.operations.inspect.diff import DiffOptions, EnvironmentDiff, EnvironmentNodeDiff, NodeDiff, diff

# How many rows of each sort are shown, at a terminal and in a comment.
_DEFAULT_LIMIT, _MARKDOWN_LIMIT = 10, 5


def run_diff(exit_code: bool, key: str | None, markdown: bool, rows: bool | None, **values: Any) -> int:
    """Compare two sides of a node on Spark, or two environments, and print how they differ."""
    if markdown and values["as_json"]:
        raise CallError("--markdown and --json are two forms of the result", hint="give one of them")
    common, options = parse_diff_call(key, markdown, rows, **values)
    workspace = common.open_workspace()
    result = diff(workspace, options, create_spark(workspace, "diff_"))
    if common.as_json:
        print_document(result.to_data())
    elif markdown:
        from sqb.console.inspect.markdown_diff import format_markdown_diff  # few comparisons are for a comment

        print(format_markdown_diff(result, common.verbose), end="")
    else:
        print_lines(_format_result(result, common))
        print(f"({format_seconds(result.seconds)})")
    return 1 if exit_code and result.differs else 0


def parse_diff_call(
    key: str | None, markdown: bool, rows: bool | None, **values: Any
) -> tuple[CommonOptions, DiffOptions]:
    """What is compared, from the options of a call; a comment for people who look at something else is shorter."""
    if values["limit"] is None:
        values["limit"] = _MARKDOWN_LIMIT if markdown else _DEFAULT_LIMIT
    compare = {"key": _parse_columns(key), "rows": markdown if rows is None else rows, "cost": markdown}
    return parse_call(DiffOptions, {**values, **compare})


def _parse_columns(key: str | None) -> tuple[str, ...]:
    columns = tuple(part.strip().strip("`") for part in key.split(",")) if key is not None else ()
    if key is not None and not all(columns):
        raise CallError(f'--key "{key}" is not a list of columns', hint="write --key a or --key a,b")
    return columns


def _format_result(result: NodeDiff | EnvironmentDiff | EnvironmentNodeDiff, common: CommonOptions) -> Iterator[str]:
    paint, width = Paint(sys.stdout), get_terminal_width(sys.stdout) or DEFAULT_WIDTH
    match result:
        case NodeDiff(result=rows):
            yield from format_diff(rows, width, paint)
        case EnvironmentNodeDiff(comparison, difference, rows) if difference is not None and rows is not None:
            yield from format_difference(difference, comparison, common.verbose, paint)
            yield from format_diff(rows, width, paint, (comparison.target, comparison.source))
        case EnvironmentDiff(comparison, rows=compared):
            yield from format_environment_diff(comparison, common.verbose, paint)
            for rows in compared.values():
                yield ""
                yield from format_diff(rows, width, paint, (comparison.target, comparison.source))
        case _:
            yield from format_environment_diff(result.comparison, common.verbose, paint)
