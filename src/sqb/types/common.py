"""One type for two: Spark's own rule under ANSI, for the branches of a UNION, a CASE or a coalesce.

tests/spark/test_types.py holds it against Spark. With an unknown type, the common type is unknown.
"""

from __future__ import annotations

from sqb.types import model as m
from sqb.types.model import (
    MAX_PRECISION,
    ArrayType,
    CollatedType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    StructType,
    TimeType,
    Type,
)

_UNITS = ("year", "month", "day", "hour", "minute", "second")
_MOMENTS = (m.DATE, m.TIMESTAMP_NTZ, m.TIMESTAMP)
# What a text is read as where it meets a value of another type; a text and a number make a bigint or a double.
_READ_FROM_TEXT = (m.BOOLEAN, m.BINARY, m.DATE, m.TIMESTAMP, m.TIMESTAMP_NTZ, m.VARIANT)
# The decimals that Spark makes of integers: a bigint gets a digit more than it can have.
_INTEGER_DIGITS = {**m.INTEGER_DIGITS, m.BIGINT: 20}


def common_type(left: Type, right: Type) -> Type | None:
    """The type that Spark gives values of which some have one type and some another; None when it refuses."""
    match left, right:
        case _ if left == right:
            return _merge_nullability(left, right)
        case (m.UNKNOWN, _) | (_, m.UNKNOWN):
            return m.UNKNOWN
        case (m.VOID, other) | (other, m.VOID):
            return other
        case ArrayType(one), ArrayType(two):
            element = common_type(one, two)
            return None if element is None else ArrayType(element, left.contains_null or right.contains_null)
        case MapType(), MapType():
            return _common_map(left, right)
        case StructType(), StructType():
            return _common_struct(left, right)
        case IntervalType(), IntervalType():
            return _common_interval(left, right)
        case _ if left in _MOMENTS and right in _MOMENTS:
            return max(left, right, key=_MOMENTS.index)
        case _ if m.is_number(left) and m.is_number(right):
            return common_number(left, right)
        case _ if m.is_text(left) and m.is_text(right):
            return None if isinstance(left, CollatedType) or isinstance(right, CollatedType) else m.STRING
        case _ if m.is_text(left) or m.is_text(right):
            return _common_with_text(right if m.is_text(left) else left)
        case _:
            return None


def common_number(left: Type, right: Type) -> Type:
    """The number type for two: wide enough for both, or what a decimal of 38 digits and a double leave of them."""
    match left, right:
        case DecimalType(), DecimalType():
            return _common_decimal(left, right)
        case (DecimalType() as decimal, other) | (other, DecimalType() as decimal):
            return m.DOUBLE if m.is_fraction(other) else _common_decimal(decimal, _to_decimal(other))
        case _ if m.is_integer(left) and m.is_integer(right):
            return max(left, right, key=lambda kind: m.INTEGER_BITS[kind])
        case _:
            # A float has too few digits for integers.
            return m.FLOAT if left == right == m.FLOAT else m.DOUBLE


def _to_decimal(kind: Type) -> DecimalType:
    return kind if isinstance(kind, DecimalType) else DecimalType(_INTEGER_DIGITS[kind], 0)


def _common_decimal(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    # Spark gives up digits after the point, never before it.
    return DecimalType(min(MAX_PRECISION, whole + scale), max(0, min(scale, MAX_PRECISION - whole)))


def _common_with_text(other: Type) -> Type | None:
    if m.is_integer(other):
        return m.BIGINT
    if m.is_number(other):
        return m.DOUBLE
    return other if other in _READ_FROM_TEXT or isinstance(other, TimeType) else None


def _common_interval(left: IntervalType, right: IntervalType) -> Type | None:
    if (left.first in _UNITS[:2]) != (right.first in _UNITS[:2]):
        return None
    return IntervalType(min(left.first, right.first, key=_UNITS.index), max(left.last, right.last, key=_UNITS.index))


def _common_map(left: MapType, right: MapType) -> Type | None:
    key, value = common_type(left.key, right.key), common_type(left.value, right.value)
    if key is None or value is None or any(_can_become_null(kind, key) for kind in (left.key, right.key)):
        return None
    return MapType(key, value, left.contains_null or right.contains_null)


def _common_struct(left: StructType, right: StructType) -> Type | None:
    if [f.name.lower() for f in left.fields] != [f.name.lower() for f in right.fields]:
        return None
    fields = []
    for one, two in zip(left.fields, right.fields, strict=True):
        kind = common_type(one.type, two.type)
        if kind is None:
            return None
        fields.append(Field(one.name, kind, one.nullable or two.nullable))
    return StructType(tuple(fields))


def _merge_nullability(left: Type, right: Type) -> Type:
    """A type of two that are equal but for what they say of NULL."""
    match left, right:
        case ArrayType(one), ArrayType(two):
            return ArrayType(_merge_nullability(one, two), left.contains_null or right.contains_null)
        case MapType(key, one), MapType(_, two):
            return MapType(key, _merge_nullability(one, two), left.contains_null or right.contains_null)
        case StructType(fields), StructType(others):
            return StructType(
                tuple(
                    Field(f.name, _merge_nullability(f.type, o.type), f.nullable or o.nullable)
                    for f, o in zip(fields, others, strict=True)
                )
            )
        case _:
            return left


def _can_become_null(source: Type, target: Type) -> bool:
    """Whether a cast gives NULL for some values where ANSI is off, which Spark does not risk for the keys of maps."""
    match source, target:
        case _ if source == target or source == m.VOID:
            return False
        case _ if m.is_text(source):
            return target != m.BINARY
        case _, DecimalType(precision, scale):
            digits = _to_decimal(source) if m.is_integer(source) or isinstance(source, DecimalType) else None
            return digits is None or digits.precision - digits.scale > precision - scale or digits.scale > scale
        case _:
            return m.is_fraction(source) and m.is_integer(target)
