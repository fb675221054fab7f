"""`sqb lineage`: its output."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_exact_lines, print_lines
from sqb.console.inspect.lineage import format_lineage, format_mermaid
from sqb.console.style import Paint
from sqb.errors.call import CallError
from sqb.operations.inspect.lineage import LineageOptions, trace_lineage


def run_lineage(mermaid: bool, **values: Any) -> int:
    """Print what a table or column is made of and what it is used for, or the whole project."""
    common, options = parse_call(LineageOptions, values)
    if mermaid and common.as_json:
        raise CallError("--json and --mermaid are two forms of one answer", hint="take one of them")
    lineage = trace_lineage(common.open_workspace(), options)
    if common.as_json:
        print_document(lineage.to_data())
    elif mermaid:
        print_exact_lines(format_mermaid(lineage))
    else:
        print_lines(format_lineage(lineage, Paint(sys.stdout)))
    return 0
