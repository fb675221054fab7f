"""Values of Python as SQL text."""

from __future__ import annotations

import math


def format_literal(value: object) -> str:
    """A configured value as SQL: texts become string literals, lists become `(a, b)`."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if not math.isfinite(value):
            return f"double('{value}')"
        case int() | float():
            # The space keeps `10-@@n` from becoming the comment `10--5`.
            return f" {value}" if value < 0 else str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case list() | tuple():
            return "(" + ", ".join(format_literal(v) for v in value) + ")"
        case _:
            name = type(value).__name__
            return f"{'TIMESTAMP' if name == 'datetime' else 'DATE'} '{value}'"
