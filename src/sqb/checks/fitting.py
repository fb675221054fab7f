"""Checks against the columns that a model's result has: names that do not exist, types that a check cannot work on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqb.checks.types import TAKES, comparable, fits, is_time, type_class, type_words
from sqb.checks.values import Alike, Check, Need
from sqb.errors import BadCheckArguments, CheckColumnMissing, CheckColumnType, ProjectError
from sqb.names import did_you_mean

# Columns with their types; a type that is not known yet is None.
Columns = Mapping[str, Any]


def misfits(
    checks: Iterable[Check], columns: Columns, others: Mapping[str, Columns] | None = None
) -> list[ProjectError]:
    """What is wrong with checks on a result with these columns, and with `others`, the relations that they name."""
    found: list[ProjectError] = []
    by_name = _folded(columns)
    for check in checks:
        wrong: dict[str, ProjectError] = {}
        for need in check.needs:
            problem = _misfit(check, need, columns, by_name)
            if problem is not None:
                wrong.setdefault(need.column.lower(), problem)
        found += wrong.values()
        if not wrong:
            found += _unlike(check, by_name, others or {})
    return found


def _folded(columns: Columns) -> dict[str, Any]:
    return {name.lower(): kind for name, kind in columns.items()}


def _misfit(check: Check, need: Need, columns: Columns, by_name: Columns) -> ProjectError | None:
    name = need.column.lower()
    if name not in by_name:
        return _missing(check, need.column, columns)
    kind = by_name[name]
    if kind is None:
        return None
    if not fits(kind, need.takes):
        message = f"{check.text}: {need.column} is {type_words(kind)}, and here it must be {TAKES[need.takes][1]}"
        return CheckColumnType(message, at=check.at, hint="cast it in the query, or check another column")
    if need.text is not None and type_class(kind) == "time" and not is_time(need.text):
        message = f"{check.text}: {need.column} is {type_words(kind)}, and '{need.text}' is not a date or a time"
        return BadCheckArguments(message, at=check.at, hint="write a day as '2026-01-31'")
    return None


def _missing(check: Check, column: str, columns: Columns, relation: str = "") -> CheckColumnMissing:
    where = f"{relation} has" if relation else "there is"
    hint = did_you_mean(column, columns) or f"its columns are {', '.join(columns)}"
    return CheckColumnMissing(f'{check.text}: {where} no column "{column}"', at=check.at, hint=hint)


def _unlike(check: Check, by_name: Columns, others: Mapping[str, Columns]) -> Iterator[ProjectError]:
    """Columns that are compared and whose types are not; of other relations also those that do not exist."""
    for pair in check.alike:
        there = others.get(pair.relation) if pair.relation else by_name
        if there is None:
            continue
        folded = _folded(there)
        if pair.other.lower() not in folded:
            yield _missing(check, pair.other, there, pair.relation)
        else:
            yield from _incomparable(check, pair, by_name[pair.column.lower()], folded[pair.other.lower()])


def _incomparable(check: Check, pair: Alike, kind: Any, other: Any) -> Iterator[ProjectError]:
    if kind is not None and other is not None and not comparable(kind, other):
        name = f"{pair.relation}.{pair.other}" if pair.relation else pair.other
        message = f"{check.text}: {pair.column} is {type_words(kind)} and {name} is {type_words(other)}"
        yield CheckColumnType(message, at=check.at, hint="only alike types can be compared: cast one of them")
