"""`sqb compile`: its output."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_exact_lines
from sqb.console.inspect.compile import format_compiled
from sqb.console.style import Paint
from sqb.operations.inspect.compile import CompileOptions, compile_nodes


def run_compile(**values: Any) -> int:
    """Print each selected model's SQL."""
    common, options = parse_call(CompileOptions, values)
    compiled = compile_nodes(common.open_workspace(), options)
    if common.as_json:
        print_document(compiled.to_data())
    else:
        print_exact_lines(format_compiled(compiled, Paint(sys.stdout)))
    return 0
