"""What each call in a query is given: the type of its first argument, by where the call begins.

Evaluates a query as `evaluate.py` does, and notes types on the way. What is not certain is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.sql.columns.evaluate import _Evaluator
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Query
from sqb.sql.columns.problems import Problem
from sqb.sql.columns.scope import Scope
from sqb.sql.columns.sources import NamedColumn
from sqb.sql.columns.types_of_expressions import EvaluateQuery, ExpressionTyper
from sqb.types import model as m
from sqb.types.model import Type


def find_call_types(outline: Query, tables: Mapping[int, Sequence[NamedColumn] | None]) -> dict[int, Type]:
    """The types of the first arguments of calls, over tables by where their names begin in the query."""
    evaluator = _CallEvaluator(tables, Signatures())
    try:
        evaluator.evaluate(outline, Scope(), {})
    except RecursionError:
        return {}
    return {start: kind for start, kind in evaluator.calls.arguments.items() if kind != m.UNKNOWN}


class _CallEvaluator(_Evaluator):
    calls: _CallTyper

    def _make_typer(self) -> ExpressionTyper:
        self.calls = _CallTyper(self.signatures, self._evaluate_nested, self.problems)
        return self.calls


class _CallTyper(ExpressionTyper):
    def __init__(self, signatures: Signatures, evaluate: EvaluateQuery, problems: list[Problem]) -> None:
        super().__init__(signatures, evaluate, problems)
        self.arguments: dict[int, Type] = {}

    def type_arguments(self, call: Call, scope: Scope) -> list[Type]:
        types = super().type_arguments(call, scope)
        # A text that is read in two ways is not certain.
        if types and self.arguments.setdefault(call.start, types[0]) != types[0]:
            self.arguments[call.start] = m.UNKNOWN
        return types
