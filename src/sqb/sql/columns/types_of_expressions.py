"""The type of an expression in a scope, and every mistake in it that is surely one.

A type that is not known is UNKNOWN, and nothing is said of what is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqb.names import suggest_nearest
from sqb.sql.columns.functions.operators import Misfit, check_condition, find_operator_type
from sqb.sql.columns.functions.refused_types import check_single_argument
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.numbers_of_columns import check_in_query, check_value
from sqb.sql.columns.outline import (
    Call,
    Constant,
    Conversion,
    Expression,
    Field,
    Lambda,
    Name,
    Nested,
    Opaque,
    Operation,
    Query,
    Star,
)
from sqb.sql.columns.places import find_place
from sqb.sql.columns.problems import Kind, Problem
from sqb.sql.columns.scope import Ambiguous, Found, Relation, Scope, UnknownField, Unsure, get_field_type, is_hidden
from sqb.types import model as m
from sqb.types.cast import can_cast
from sqb.types.model import Type

EvaluateQuery = Callable[[Query, Scope], Relation]


class ExpressionTyper:
    """Types expressions, and collects what is wrong with them."""

    def __init__(self, signatures: Signatures, evaluate: EvaluateQuery, problems: list[Problem]) -> None:
        self.signatures, self.evaluate, self.problems = signatures, evaluate, problems

    def report(self, kind: Kind, message: str, start: int, end: int, hint: str | None = None, column: str = "") -> None:
        self.problems.append(Problem(kind, message, start, end, hint, column))

    def type(self, value: Expression, scope: Scope) -> Type:
        """The type of an expression; UNKNOWN where it is not known."""
        if type(value) is Name:
            return self.type_name(value, scope)
        if type(value) is Constant:
            return value.type
        if type(value) is Operation:
            return self._type_operation(value, scope)
        if type(value) is Call:
            return self._type_call(value, scope)
        if type(value) is Conversion:
            return self._type_conversion(value, scope)
        if type(value) is Field:
            return self._get_field(self.type(value.value, scope), (value.name,), value.start, value.end)
        if type(value) is Nested:
            return self._type_nested(value, scope)
        if type(value) is Lambda:
            inner = Scope(scope.outer, scope.sources, scope.aliases, scope.variables | frozenset(value.parameters))
            self.type(value.body, inner)
        elif type(value) is Opaque:
            for part in value.parts:
                self.type(part, scope)
        elif type(value) is Star:
            pass
        return m.UNKNOWN

    def check_condition(self, value: Expression, scope: Scope, where: str) -> None:
        """Type what must be true or false, and report what surely is neither."""
        kind = self.type(value, scope)
        try:
            check_condition(kind, where)
        except Misfit as misfit:
            self.report("wrong type", misfit.message, *find_place(value), misfit.hint)

    # --- names ----------------------------------------------------------------------------------------------------

    def type_name(self, name: Name, scope: Scope) -> Type:
        first = name.parts[0].lower()
        current: Scope | None = scope
        unsure = False
        while current is not None:
            if first in current.variables or (current.has_unnamed and not first.isidentifier()):
                return m.UNKNOWN
            if current.has_aliases_first and first in current.aliases:
                if current.lookup(name.parts) is not None:
                    # Where the sources have the name too, Spark takes the one of them that fits.
                    return m.UNKNOWN
                if len(name.parts) == 1:
                    return current.aliases[first]
            match current.lookup(name.parts):
                case Found(column, fields):
                    return m.UNKNOWN if unsure else self._get_field(column.type, fields, name.start, name.end)
                case Ambiguous(sources):
                    if not unsure:
                        self._report_ambiguous(name, sources)
                    return m.UNKNOWN
                case Unsure():
                    unsure = True
            if first in current.aliases:
                kind = current.aliases[first]
                return m.UNKNOWN if unsure else self._get_field(kind, name.parts[1:], name.start, name.end)
            current = current.outer
        if not unsure and not is_hidden(name.parts):
            self._report_unknown(name, scope)
        return m.UNKNOWN

    def _get_field(self, kind: Type, fields: Sequence[str], start: int, end: int) -> Type:
        for field in fields:
            try:
                kind = get_field_type(kind, field)
            except UnknownField as unknown:
                if unknown.fields:
                    message = f'no field is called "{field}"'
                    hint = suggest_nearest(field, unknown.fields) or f"the fields are {', '.join(unknown.fields)}"
                else:
                    message, hint = f'"{field}" is asked of a value of type {unknown.kind}, which has no fields', None
                self.report("unknown column", message, start, end, hint)
                return m.UNKNOWN
        return kind

    def _report_ambiguous(self, name: Name, sources: Sequence[str]) -> None:
        owners = " or ".join(f'"{s}.{name.parts[-1]}"' for s in dict.fromkeys(sources) if s)
        message = f'the column "{".".join(name.parts)}" is ambiguous' + (f": it could be {owners}" if owners else "")
        is_same = len(set(sources)) == 1
        hint = "give each of them an alias of its own" if is_same else "write the table's name or alias before it"
        if is_same:
            message = f'the column "{".".join(name.parts)}" is ambiguous: two relations are called "{sources[0]}"'
        self.report("ambiguous column", message, name.start, name.end, hint)

    def _report_unknown(self, name: Name, scope: Scope) -> None:
        *qualifier, last = name.parts
        hint = _suggest_table(qualifier, scope) or suggest_nearest(
            last, dict.fromkeys(_list_candidates(scope, qualifier))
        )
        if qualifier and hint is None:
            others = [s.names[-1] for s in scope.sources if s.names and s.names[-1] != qualifier[-1].lower()]
            hint = suggest_nearest(qualifier[-1], others)
        if hint is None and (columns := list(dict.fromkeys(scope.list_names(qualifier)))):
            hint = f"the columns here are {', '.join(columns[:12])}{', …' if len(columns) > 12 else ''}"
        message = f'unknown column "{".".join(name.parts)}"'
        self.report("unknown column", message, name.start, name.end, hint, last.lower())

    # --- operators, calls, casts ----------------------------------------------------------------------------------

    def _type_operation(self, operation: Operation, scope: Scope) -> Type:
        types = [self._type_operand(operation, operand, scope) for operand in operation.operands]
        try:
            return find_operator_type(operation.operator, types)
        except Misfit as misfit:
            wrong = operation if misfit.operand is None else operation.operands[misfit.operand]
            self.report("wrong type", misfit.message, *find_place(wrong), misfit.hint)
            return m.UNKNOWN

    def _type_operand(self, operation: Operation, operand: Expression, scope: Scope) -> Type:
        if not isinstance(operand, Nested) or operation.operator != "in query":
            return self.type_value(operand, scope)
        relation = self.evaluate(operand.query, scope)
        check_in_query(operation.operands[0], operand, relation, self.report)
        return _get_single_type(operand, relation)

    def type_value(self, value: Expression, scope: Scope) -> Type:
        """The type of an expression that is one value: a query that gives several columns is a mistake."""
        if not isinstance(value, Nested):
            return self.type(value, scope)
        relation = self.evaluate(value.query, scope)
        check_value(value, relation, self.report)
        return _get_single_type(value, relation)

    def _type_call(self, call: Call, scope: Scope) -> Type:
        types = self.type_arguments(call, scope)
        problem = self.signatures.find_problem(call)
        if problem is not None:
            self.problems.append(problem)
            return m.UNKNOWN
        try:
            if call.written_count == 1 == len(types) and call.name not in self.signatures.own:
                check_single_argument(call.name, types[0])
            return self.signatures.find_result(call.name, types)
        except Misfit as misfit:
            self.report("wrong type", misfit.message, *find_place(call), misfit.hint)
            return m.UNKNOWN

    def type_arguments(self, call: Call, scope: Scope) -> list[Type]:
        """The types of what a call is given."""
        return [self.type(argument, scope) for argument in call.arguments]

    def _type_conversion(self, conversion: Conversion, scope: Scope) -> Type:
        source = self.type(conversion.value, scope)
        if conversion.type != m.UNKNOWN and not can_cast(source, conversion.type):
            start, end = find_place(conversion)
            message = f"a value of type {source} cannot be cast to {conversion.type}"
            self.report("wrong type", message, start, end)
        return m.to_plain_text(conversion.type)

    def _type_nested(self, nested: Nested, scope: Scope) -> Type:
        return _get_single_type(nested, self.evaluate(nested.query, scope))


def _get_single_type(nested: Nested, relation: Relation) -> Type:
    if nested.use == "exists" or relation.is_open or len(relation.columns) != 1:
        return m.UNKNOWN
    return relation.columns[0].type


def _suggest_table(qualifier: Sequence[str], scope: Scope) -> str | None:
    """The hint for a name whose first part is neither a relation nor a column, here or around."""
    sources, current = list(scope.sources), scope.outer
    while current is not None:
        sources += current.sources
        current = current.outer
    names = [s.names for s in sources if s.names]
    first = qualifier[0].lower() if qualifier else ""
    if not first or not names or any(first in parts for parts in names) or any(s.relation.find(first) for s in sources):
        return None
    listed = ", ".join(".".join(parts) for parts in names[:5])
    return f'nothing here is called "{".".join(qualifier)}"; the tables are {listed}'


def _list_candidates(scope: Scope, qualifier: Sequence[str]) -> list[str]:
    names = scope.list_names(qualifier)
    return names if qualifier else [*names, *scope.aliases]
