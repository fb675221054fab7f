"""Commands that only look: the output of `compile`, `query`, `history` and `version`."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import create_spark, print_document, print_lines
from sqb.console.lines import format_table
from sqb.console.style import Paint
from sqb.names import format_seconds


def run_compile(**values: Any) -> int:
    """Print each selected model's SQL."""
    from sqb.console.inspect.compile import format_compiled
    from sqb.operations.inspect.compile import CompileOptions, compile_nodes

    common, options = parse_call(CompileOptions, values)
    compiled = compile_nodes(common.open_workspace(), options)
    if common.as_json:
        print_document(compiled.to_data())
    else:
        print_lines(format_compiled(compiled, Paint(sys.stdout)))
    return 0


def run_query(**values: Any) -> int:
    """Run one query on Spark and print its rows."""
    from sqb.operations.inspect.query import QueryOptions, run_query

    common, options = parse_call(QueryOptions, values)
    workspace = common.open_workspace()
    result = run_query(workspace, options, create_spark(workspace, "query_"))
    if common.as_json:
        print_document(result.to_data())
        return 0
    print_lines(format_table(result.columns, result.rows))
    count, cut = len(result.rows), f", the first {options.limit}" if len(result.rows) == options.limit else ""
    print(f"({count} {'row' if count == 1 else 'rows'}{cut}, {format_seconds(result.seconds)})")
    return 0


def run_history(**values: Any) -> int:
    """Print the runs of a target, or what one run did."""
    from sqb.console.inspect.history import format_history
    from sqb.operations.inspect.history import HistoryOptions, read_history

    common, options = parse_call(HistoryOptions, values)
    history = read_history(common.open_workspace(), options)
    if common.as_json:
        print_document(history.to_data())
    else:
        print_lines(format_history(history, options))
    return 0


def run_version(as_json: bool) -> int:
    """Print the versions of everything that matters for a report."""
    from sqb.operations.versions import read_versions

    versions = read_versions()
    if as_json:
        print_document(versions, ensure_ascii=True)
        return 0
    print(f"sqb {versions['sqb']}")
    for name, value in list(versions.items())[1:]:
        print(f"  {name:<10} {value}")
    return 0
