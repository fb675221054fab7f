"""Types of rows that loaders hand over: one for several pieces, and what a table's column becomes to take them.

These rules are narrower than Spark's, as each value must stay what it is: a text is never read as a number because
other rows have numbers. They are wider for structs: rows of JSON leave fields out.
"""

from __future__ import annotations

from sqb.types import model as m
from sqb.types.common import common_number
from sqb.types.iceberg import can_promote, to_stored_type
from sqb.types.model import MAX_PRECISION, ArrayType, DecimalType, Field, MapType, StructType, Type


def join_types(left: Type, right: Type) -> Type | None:
    """The type for rows of which some have one type and some another; None when there is none.

    A number that is not the same number in that type is refused when it comes.
    """
    match left, right:
        case _ if left == right:
            return left
        case (m.VOID, other) | (other, m.VOID):
            return other
        case ArrayType(one), ArrayType(two):
            element = join_types(one, two)
            return None if element is None else ArrayType(element)
        case MapType(key, one), MapType(other_key, two):
            keys, value = join_types(key, other_key), join_types(one, two)
            return None if keys is None or value is None else MapType(keys, value)
        case StructType(), StructType():
            return _join_structs(left, right)
        case _ if m.is_number(left) and m.is_number(right):
            return _join_numbers(left, right)
        case _:
            return None


def _join_numbers(left: Type, right: Type) -> Type:
    if m.is_fraction(left) or m.is_fraction(right) or (m.is_integer(left) and m.is_integer(right)):
        return common_number(left, right)
    # Unlike Spark, which would round: all digits after the point stay, and integers have no more than they can have.
    digits = [(k.precision, k.scale) if isinstance(k, DecimalType) else (m.INTEGER_DIGITS[k], 0) for k in (left, right)]
    scale = max(scale for _, scale in digits)
    whole = max(precision - scale for precision, scale in digits)
    return DecimalType(min(MAX_PRECISION, whole + scale), scale)


def _join_structs(left: StructType, right: StructType) -> Type | None:
    new_fields = right.fold_fields()
    fields = []
    for field in left.fields:
        other = new_fields.pop(field.name.lower(), None)
        kind = field.type if other is None else join_types(field.type, other.type)
        if kind is None:
            return None
        fields.append(Field(field.name, kind))
    return StructType((*fields, *new_fields.values()))


def to_loaded_type(kind: Type) -> Type:
    """The type that a new column of a loader's table gets: what has no value yet is stored as text."""
    return m.replace_leaves(to_stored_type(kind), lambda part: m.STRING if part == m.VOID else part)


def widen_column(table: Type, rows: Type) -> Type | None:
    """The type that a table's column gets so that it takes rows of another type; None when it cannot take them.

    It becomes wider where no file has to be rewritten for that. Where it cannot, numbers are taken that are the same
    number in the table's type, which is seen when they come.
    """
    match table, rows:
        case _ if rows == m.VOID or table == rows:
            return table
        case ArrayType(one), ArrayType(two):
            element = widen_column(one, two)
            return None if element is None else ArrayType(element)
        case MapType(key, one), MapType(other_key, two):
            value = widen_column(one, two)
            return None if value is None or not can_hold(key, other_key) else MapType(key, value)
        case StructType(), StructType():
            return _widen_struct(table, rows)
        case _ if m.is_number(table) and m.is_number(rows):
            return rows if can_promote(table, rows) else table
        case _:
            return None


def _widen_struct(table: StructType, rows: StructType) -> Type | None:
    new_fields = rows.fold_fields()
    fields = []
    for field in table.fields:
        other = new_fields.pop(field.name.lower(), None)
        kind = field.type if other is None else widen_column(field.type, other.type)
        if kind is None:
            return None
        fields.append(Field(field.name, kind))
    return StructType((*fields, *(Field(f.name, to_loaded_type(f.type)) for f in new_fields.values())))


def can_hold(table: Type, rows: Type) -> bool:
    """Whether a table's column takes every value of another type as it is."""
    match table, rows:
        case _ if rows == m.VOID or table == to_loaded_type(rows):
            return True
        case ArrayType(one), ArrayType(two):
            return can_hold(one, two)
        case MapType(key, one), MapType(other_key, two):
            return can_hold(key, other_key) and can_hold(one, two)
        case StructType(), StructType():
            known = table.fold_fields()
            return all(f.name.lower() in known and can_hold(known[f.name.lower()].type, f.type) for f in rows.fields)
        case _:
            return can_promote(rows, table)
