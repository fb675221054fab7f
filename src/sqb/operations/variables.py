"""Values of `@@variables` that are given from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.errors import CallError


def refuse_bad_values(values: Mapping[str, Any]) -> None:
    """Refuse what cannot stand in SQL in the place of a variable."""
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        if not all(part is None or isinstance(part, str | int | float) for part in parts):
            raise CallError(
                f"--vars: {name} must be text, a number, true/false, null or a list of these",
                hint="""such as --vars '{"day": "2024-01-31", "countries": ["de", "fr"]}'""",
            )
