"""`sqb freshness`: its output and exit code."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import create_spark, print_document, print_lines
from sqb.console.inspect.freshness import format_freshness
from sqb.console.style import get_terminal_width
from sqb.operations.inspect.freshness import FreshnessOptions, observe_freshness


def run_freshness(**values: Any) -> int:
    """Observe sources and print what was seen."""
    common, options = parse_call(FreshnessOptions, values)
    workspace = common.open_workspace()
    result = observe_freshness(workspace, options, create_spark(workspace, "freshness_"))
    if common.as_json:
        print_document(result.to_data(), ensure_ascii=True)
    else:
        print_lines(format_freshness(result, get_terminal_width(sys.stdout)))
        for error in result.failed.values():
            from sqb.console.errors import print_error

            print_error(error, workspace.root)
    return 0 if result.ok else 1
