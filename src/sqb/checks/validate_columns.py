"""Checks against the columns that a model's result has: names that do not exist, types that a check cannot work on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqb.checks.model import Check, ComparedColumns, RequiredColumn
from sqb.errors.project import BadCheckArguments, CheckColumnMissing, CheckColumnType, ProjectError
from sqb.names import suggest_nearest
from sqb.types.classes import TAKES, classify_type, is_comparable, is_time, is_type_accepted
from sqb.types.model import Type

# Columns with their types; a type that is not known yet is None.
Columns = Mapping[str, Type | None]


def find_misfits(
    checks: Iterable[Check], columns: Columns, others: Mapping[str, Columns] | None = None
) -> list[ProjectError]:
    """What is wrong with checks on a result with these columns, and with `others`, the relations that they name."""
    problems: list[ProjectError] = []
    by_name = _fold_names(columns)
    for check in checks:
        wrong: dict[str, ProjectError] = {}
        for need in check.needs:
            problem = _check_column(check, need, columns, by_name)
            if problem is not None:
                wrong.setdefault(need.column.lower(), problem)
        problems += wrong.values()
        if not wrong:
            problems += _iter_unlike(check, by_name, others or {})
    return problems


def _fold_names(columns: Columns) -> dict[str, Type | None]:
    return {name.lower(): kind for name, kind in columns.items()}


def _check_column(check: Check, need: RequiredColumn, columns: Columns, by_name: Columns) -> ProjectError | None:
    name = need.column.lower()
    if name not in by_name:
        return _build_missing_error(check, need.column, columns)
    kind = by_name[name]
    if kind is None:
        return None
    if not is_type_accepted(kind, need.takes):
        message = f"{check.text}: {need.column} is {kind}, and here it must be {TAKES[need.takes][1]}"
        return CheckColumnType(message, at=check.at, hint="cast it in the query, or check another column")
    if need.text is not None and classify_type(kind) == "time" and not is_time(need.text):
        message = f"{check.text}: {need.column} is {kind}, and '{need.text}' is not a date or a time"
        return BadCheckArguments(message, at=check.at, hint="write a day as '2026-01-31'")
    return None


def _build_missing_error(check: Check, column: str, columns: Columns, relation: str = "") -> CheckColumnMissing:
    where = f"{relation} has" if relation else "there is"
    hint = suggest_nearest(column, columns) or f"its columns are {', '.join(columns)}"
    return CheckColumnMissing(f'{check.text}: {where} no column "{column}"', at=check.at, hint=hint)


def _iter_unlike(check: Check, by_name: Columns, others: Mapping[str, Columns]) -> Iterator[ProjectError]:
    """Columns that are compared and whose types are not; of other relations also those that do not exist."""
    for pair in check.comparisons:
        there = others.get(pair.relation) if pair.relation else by_name
        if there is None:
            continue
        folded = _fold_names(there)
        if pair.other.lower() not in folded:
            yield _build_missing_error(check, pair.other, there, pair.relation)
        else:
            yield from _iter_incomparable(check, pair, by_name[pair.column.lower()], folded[pair.other.lower()])


def _iter_incomparable(
    check: Check, pair: ComparedColumns, kind: Type | None, other: Type | None
) -> Iterator[ProjectError]:
    if kind is not None and other is not None and not is_comparable(kind, other):
        name = f"{pair.relation}.{pair.other}" if pair.relation else pair.other
        message = f"{check.text}: {pair.column} is {kind} and {name} is {other}"
        yield CheckColumnType(message, at=check.at, hint="only alike types can be compared: cast one of them")
