"""What each call in a query is given: the type of its first argument, by where the call begins.

Evaluates a query as `evaluate.py` does, and notes types on the way. What is not certain is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.sql.columns.evaluate import _Evaluator
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Query
from sqb.sql.columns.scope import Scope
from sqb.sql.columns.sources import NamedColumn, SourceReader
from sqb.sql.columns.types_of_expressions import ExpressionTyper
from sqb.types import model as m
from sqb.types.model import Type


def find_call_types(outline: Query, tables: Mapping[int, Sequence[NamedColumn] | None]) -> dict[int, Type]:
    """The types of the first arguments of calls, over tables by where their names begin in the query."""
    evaluator = _CallEvaluator(tables)
    try:
        evaluator.evaluate(outline, Scope(), {})
    except RecursionError:
        return {}
    return {start: kind for start, kind in evaluator.typer.arguments.items() if kind != m.UNKNOWN}


class _CallEvaluator(_Evaluator):
    def __init__(self, tables: Mapping[int, Sequence[NamedColumn] | None]) -> None:
        super().__init__(tables, Signatures())
        self.typer: _CallTyper = _CallTyper(self)
        self.sources = SourceReader(tables, self.typer, self._evaluate_nested, self._read_cte, self.keys)


class _CallTyper(ExpressionTyper):
    def __init__(self, evaluator: _CallEvaluator) -> None:
        super().__init__(evaluator.signatures, evaluator._evaluate_nested, evaluator.problems)
        self.arguments: dict[int, Type] = {}

    def type_arguments(self, call: Call, scope: Scope) -> list[Type]:
        types = super().type_arguments(call, scope)
        # A text that is read in two ways is not certain.
        if types and self.arguments.setdefault(call.start, types[0]) != types[0]:
            self.arguments[call.start] = m.UNKNOWN
        return types
