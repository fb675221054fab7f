"""`sqb history`: its output."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines
from sqb.console.inspect.history import format_history
from sqb.console.style import get_terminal_width
from sqb.operations.inspect.history import HistoryOptions, read_history


def run_history(**values: Any) -> int:
    """Print the runs of a target, or what one run did."""
    common, options = parse_call(HistoryOptions, values)
    history = read_history(common.open_workspace(), options)
    if common.as_json:
        print_document(history.to_data())
    else:
        print_lines(format_history(history, options, get_terminal_width(sys.stdout)))
    return 0
