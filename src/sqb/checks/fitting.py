"""Checks against the columns that a model's result has: names that do not exist, types that a check cannot work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqb.checks.types import TAKES, fits, type_words
from sqb.checks.values import Check
from sqb.errors import CheckColumnMissing, CheckColumnType, ProjectError
from sqb.names import did_you_mean


def misfits(checks: Iterable[Check], columns: Mapping[str, Any]) -> list[ProjectError]:
    """What is wrong with checks on a result with these columns; a type that is not known yet is None."""
    found: list[ProjectError] = []
    by_name = {name.lower(): kind for name, kind in columns.items()}
    for check in checks:
        reported: set[str] = set()
        for need in check.needs:
            name = need.column.lower()
            if name in reported:
                continue
            kind = by_name.get(name)
            if name not in by_name:
                reported.add(name)
                hint = did_you_mean(need.column, columns) or f"its columns are {', '.join(columns)}"
                found.append(
                    CheckColumnMissing(f'{check.text}: there is no column "{need.column}"', at=check.at, hint=hint)
                )
            elif kind is not None and not fits(kind, need.takes):
                reported.add(name)
                message = (
                    f"{check.text}: {need.column} is {type_words(kind)}, and here it must be {TAKES[need.takes][1]}"
                )
                found.append(
                    CheckColumnType(message, at=check.at, hint="cast it in the query, or check another column")
                )
    return found
