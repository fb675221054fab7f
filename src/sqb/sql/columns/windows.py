"""Functions that need a window or an order, and generators where rows cannot be made."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.sql.columns.clauses import iter_calls
from sqb.sql.columns.functions.operators import WINDOWED
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Expression, Lambda, Operation, Select
from sqb.sql.columns.places import list_parts
from sqb.sql.columns.problems import Report
from sqb.sql.functions.builtins import GENERATORS, WINDOW

_ORDERED = WINDOW - {"nth_value"}


def check_windows(select: Select, signatures: Signatures, report: Report) -> None:
    """Report what surely is no use of a window function or a generator in the expressions of a SELECT."""
    values = [item.value for item in select.items]
    for value in (*values, *select.order):
        for call in iter_calls(value):
            if call.name in WINDOW and not call.is_windowed and call.name not in signatures.own:
                hint = "write OVER (PARTITION BY … ORDER BY …) after it"
                report("misplaced aggregate", f"{call.name}() needs a window", call.start, call.end, hint)
        for window in _iter_windows(value):
            _check_window(window, report)
    for value in values:
        _check_generators(value, signatures, report)
    if select.where is not None:
        for call in iter_calls(select.where):
            _refuse_generator(call, signatures, report, "cannot be in WHERE")


def _check_window(window: Operation, report: Report) -> None:
    call = window.operands[0]
    if window.operator == "over unordered" and isinstance(call, Call) and call.name in _ORDERED:
        hint = "write ORDER BY in its OVER (…)"
        report("misplaced aggregate", f"{call.name}() needs an order", call.start, call.end, hint)
    if window.operator == "over distinct" and isinstance(call, Call):
        message = f"{call.name}(DISTINCT …) cannot be computed over a window"
        report("misplaced aggregate", message, call.start, call.end, "count them in a query of their own, and join it")


def _check_generators(value: Expression, signatures: Signatures, report: Report) -> None:
    while isinstance(value, Operation) and value.operator == "()":
        value = value.operands[0]
    for part in list_parts(value):
        for call in iter_calls(part):
            _refuse_generator(call, signatures, report, "makes rows, and cannot be inside of an expression")


def _refuse_generator(call: Call, signatures: Signatures, report: Report, why: str) -> None:
    if call.name in GENERATORS and call.name not in signatures.own:
        hint = "read its rows in FROM with LATERAL, or in a query below this one"
        report("misplaced aggregate", f"{call.name}() {why}", call.start, call.end, hint)


def _iter_windows(value: Expression) -> Iterator[Operation]:
    if isinstance(value, Lambda):
        return
    if isinstance(value, Operation) and value.operator in WINDOWED:
        yield value
    for part in list_parts(value):
        yield from _iter_windows(part)
