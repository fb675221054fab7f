"""The types of operators, and the operands that Spark refuses under ANSI. tests/spark/test_columns.py asks Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.types import model as m
from sqb.types.common import common_number, common_type
from sqb.types.model import (
    ArrayType,
    CollatedType,
    DecimalType,
    IcebergType,
    IntervalType,
    MapType,
    OpaqueType,
    StructType,
    Type,
)

_COMPARISONS = frozenset(["=", "<>", "<", "<=", ">", ">=", "<=>"])
_BOOLEAN = frozenset(["is", "like", "in query", "exists"])
_NESTED = (ArrayType, MapType, StructType)
# A function before OVER with the parts of its window: one with an order or a name, one without, one of distinct values.
WINDOWED = frozenset(["over", "over unordered", "over distinct"])
_ARITHMETIC = frozenset(["+", "-", "*", "/", "%"])


class Misfit(Exception):
    """Operands that an operator does not take; `operand` is the one that is wrong, where it is one."""

    def __init__(self, message: str, hint: str | None = None, operand: int | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.operand = message, hint, operand


def find_operator_type(operator: str, types: Sequence[Type]) -> Type:
    """The type of an operator's result; a `Misfit` where Spark surely refuses its operands."""
    if operator in _COMPARISONS and len(types) == 2:
        _check_comparable(types[0], types[1], operator)
        return m.BOOLEAN
    if operator == "in":
        for other in types[1:]:
            _check_comparable(types[0], other, "IN")
        return m.BOOLEAN
    if operator == "between":
        for other in types[1:]:
            _check_comparable(types[0], other, "BETWEEN")
        return m.BOOLEAN
    if operator in ("and", "or", "not", "when"):
        for index, kind in enumerate(types):
            check_condition(kind, operator.upper(), index)
        return m.BOOLEAN
    if operator in _BOOLEAN:
        if operator == "like" and isinstance(types[0], _NESTED):
            raise Misfit(f"LIKE compares texts, and this is of type {types[0]}", None, 0)
        return m.BOOLEAN
    if operator in _ARITHMETIC and len(types) == 2:
        return _compute_arithmetic(operator, types[0], types[1])
    if operator == "case":
        return find_common_type(types[1:])
    if operator == "()" and types:
        return types[0]
    if operator == "neg":
        return _negate(types[0])
    if operator in WINDOWED:
        return types[0]
    if operator == "[]":
        return _get_element(types)
    if operator == "||":
        return m.STRING if all(m.is_text(kind) or m.is_number(kind) for kind in types) else m.UNKNOWN
    return m.BIGINT if operator == "div" and all(m.is_integer(kind) for kind in types) else m.UNKNOWN


def find_common_type(types: Sequence[Type]) -> Type:
    """The type of a CASE or a coalesce over values of these types."""
    result: Type = m.VOID
    for kind in types:
        common = common_type(result, kind)
        if common is None:
            if is_known(result) and is_known(kind):
                raise Misfit(f"the values are of the types {result} and {kind}, which have no type in common")
            return m.UNKNOWN
        result = common
    return m.UNKNOWN if result == m.VOID else result


def check_condition(kind: Type, where: str, operand: int | None = None) -> None:
    """Refuse what is surely not a condition."""
    takes_text = where in ("AND", "OR", "NOT")
    if is_known(kind) and kind not in (m.BOOLEAN, m.VOID) and not (takes_text and m.is_text(kind)):
        raise Misfit(f"{where} takes a condition, and this is of type {kind}", "compare it with something", operand)


def is_known(kind: Type) -> bool:
    """Whether a type and all types in it are known, and have no rules of their own."""
    return not any(
        part in (m.UNKNOWN, m.VARIANT, m.INTERVAL) or isinstance(part, CollatedType | OpaqueType | IcebergType)
        for part in m.iter_parts(kind)
    )


def _check_comparable(left: Type, right: Type, operator: str) -> None:
    if common_type(left, right) is None and is_known(left) and is_known(right):
        message = f"{operator} cannot compare values of the types {left} and {right}"
        raise Misfit(message, "cast one of them to the type of the other")


def _compute_arithmetic(operator: str, left: Type, right: Type) -> Type:
    if m.is_number(left) and m.is_number(right):
        if isinstance(left, DecimalType) or isinstance(right, DecimalType):
            return m.DOUBLE if m.is_fraction(left) or m.is_fraction(right) else m.UNKNOWN
        return m.DOUBLE if operator == "/" else common_number(left, right)
    if _is_wrong_moment(operator, left, right) or _is_wrong_moment(operator, right, left):
        raise Misfit(f"{operator} does not take values of the types {left} and {right}", "write + INTERVAL 1 DAY")
    if operator in ("+", "-") and left == m.DATE and m.is_integer(right):
        return m.DATE
    if _has_arithmetic_type(left, operator) and _has_arithmetic_type(right, operator):
        return m.UNKNOWN
    others = (left, right)
    if all(is_known(kind) and kind != m.VOID and not isinstance(kind, IntervalType) for kind in others):
        raise Misfit(f"{operator} does not take values of the types {left} and {right}", "cast them to numbers")
    return m.UNKNOWN


def _is_wrong_moment(operator: str, left: Type, right: Type) -> bool:
    """Whether a date or timestamp is added to another one, or a number to a timestamp."""
    if m.is_moment(left):
        return m.is_number(right) or (operator == "+" and (m.is_moment(right) or right == m.DATE))
    return left == m.DATE and (right == m.BIGINT or (operator == "+" and right == m.DATE))


def _has_arithmetic_type(kind: Type, operator: str) -> bool:
    """Whether values of a type can be an operand, with the right one on the other side."""
    return m.is_number(kind) or m.is_text(kind) or (operator in ("+", "-") and (m.is_moment(kind) or kind == m.DATE))


def _negate(kind: Type) -> Type:
    if m.is_number(kind):
        return kind
    if kind in (m.BOOLEAN, m.DATE, m.BINARY) or m.is_moment(kind) or isinstance(kind, _NESTED):
        raise Misfit(f"a value of type {kind} has no negative", "cast it to a number")
    return m.UNKNOWN


def _get_element(types: Sequence[Type]) -> Type:
    kind = types[0]
    match kind:
        case ArrayType(element):
            return element
        case MapType(_, value):
            return value
        case StructType() if len(types) == 2 and m.is_number(types[1]):
            raise Misfit(f"a field of a value of type {kind} is asked for by a number", "write .field")
        case _ if m.is_number(kind) or m.is_text(kind) or m.is_moment(kind) or kind in (m.DATE, m.BOOLEAN, m.BINARY):
            raise Misfit(f"an element is asked of a value of type {kind}, which has none")
        case _:
            return m.UNKNOWN
