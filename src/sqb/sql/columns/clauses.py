"""Aggregates and window functions in clauses that cannot have them."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Expression, Lambda, Name, Select
from sqb.sql.columns.places import list_parts
from sqb.sql.columns.problems import Report
from sqb.sql.columns.scope import Found, Scope
from sqb.sql.functions.builtins import AGGREGATES, ORDERED_AGGREGATES

AGGREGATE_NAMES = (AGGREGATES | ORDERED_AGGREGATES) - {"grouping", "grouping_id"}


def check_clauses(select: Select, scope: Scope, signatures: Signatures, report: Report) -> None:
    """Report aggregates in WHERE and GROUP BY, and those inside of each other, where they can only be mistakes."""
    if select.where is not None:
        for call in iter_calls(select.where):
            if call.is_windowed:
                message = f"{call.name}() OVER … cannot be in WHERE, which chooses rows before windows are computed"
                report("misplaced aggregate", message, call.start, call.end, "filter in a query around this one")
            elif is_aggregate(call, signatures) and _is_own(call, scope):
                message = f"the aggregate {call.name}() cannot be in WHERE, which chooses rows before they are grouped"
                report("misplaced aggregate", message, call.start, call.end, "write the condition in HAVING")
    for value in select.group or ():
        for call in iter_calls(value):
            if is_aggregate(call, signatures) and _is_own(call, scope):
                message = f"the aggregate {call.name}() cannot be in GROUP BY"
                report("misplaced aggregate", message, call.start, call.end, None)
            elif call.is_windowed:
                message = f"{call.name}() OVER … cannot be in GROUP BY, which comes before windows are computed"
                report("misplaced aggregate", message, call.start, call.end, "group in a query around this one")
    _check_joins(select, scope, signatures, report)
    for item in select.items:
        for call in iter_calls(item.value):
            if is_aggregate(call, signatures):
                _check_nested(call, signatures, report)


def _check_joins(select: Select, scope: Scope, signatures: Signatures, report: Report) -> None:
    for call in (call for join in select.joins if join.on is not None for call in iter_calls(join.on)):
        if call.is_windowed or (is_aggregate(call, signatures) and _is_own(call, scope)):
            what = f"{call.name}() OVER …" if call.is_windowed else f"the aggregate {call.name}()"
            message = f"{what} cannot be in ON, which chooses pairs of rows before anything is computed over them"
            report("misplaced aggregate", message, call.start, call.end, "compute it in a query below this one")


def _check_nested(call: Call, signatures: Signatures, report: Report) -> None:
    for argument in call.arguments:
        for inner in iter_calls(argument):
            if is_aggregate(inner, signatures) or inner.is_windowed:
                what = f"{inner.name}() OVER …" if inner.is_windowed else f"the aggregate {inner.name}()"
                message = f"{what} cannot be inside of the aggregate {call.name}()"
                report("misplaced aggregate", message, inner.start, inner.end, "compute it in a query below this one")


def is_aggregate(call: Call, signatures: Signatures) -> bool:
    """Whether a call is surely an aggregate over groups."""
    return call.name in AGGREGATE_NAMES and not call.is_windowed and call.name not in signatures.own


def iter_calls(value: Expression) -> Iterator[Call]:
    """The calls in an expression, not those in queries in it or in functions that are arguments."""
    if isinstance(value, Call):
        yield value
    if isinstance(value, Lambda):
        return
    for part in list_parts(value):
        yield from iter_calls(part)


def iter_names(value: Expression) -> Iterator[Name]:
    """The names in an expression, not those in queries in it or in functions that are arguments."""
    if isinstance(value, Name):
        yield value
    if isinstance(value, Lambda):
        return
    for part in list_parts(value):
        yield from iter_names(part)


def _is_own(call: Call, scope: Scope) -> bool:
    """Whether an aggregate is surely one of this query, and not of one around it."""
    if scope.outer is None or (scope.outer.outer is None and not scope.outer.sources):
        return True
    names = list(iter_names(call))
    return bool(names) and all(isinstance(scope.lookup(name.parts), Found) for name in names)
