"""Compiled models as text."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.console.style import Paint
from sqb.operations.inspect.compile import CompiledNodes


def format_compiled(compiled: CompiledNodes, paint: Paint) -> Iterator[str]:
    """The SQL of each model, below a line that names it."""
    for node in compiled.nodes:
        if node.type == "model":
            yield paint(f"-- {node.name} ({node.kind}) → {node.relation}", "dim")
            if node.python:
                yield f"-- its rows come from {node.python['function']}(ctx) in {node.file}\n"
            else:
                yield f"{compiled.sql[node.name]};\n"
