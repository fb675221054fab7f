"""Types of rows that come from outside: one for several, and whether a table can take them as it is or grow to.

Types are those of `types.values`. `void` is a column without a value, and a type of Iceberg's that Spark does
not have is `("iceberg", its name)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sqb.types.values import Type, format_sql_type

_WHOLE = ("int", "bigint")
# How many digits the numbers of a type can have.
_DIGITS = {"int": 10, "bigint": 19}
_FRACTIONS = ("float", "double")
_MAX_PRECISION = 38
_FROM_ICEBERG = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_JSON_NAMES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}


def parse_stored_type(text: str) -> Type:
    """The type of a column that a table has, from the text in its state."""
    return _normalize_stored(json.loads(text))


def _normalize_stored(kind: Any) -> Type:
    match kind:
        case ["list", element, _]:
            return ("array", _normalize_stored(element))
        case ["map", key, value, _]:
            return ("map", _normalize_stored(key), _normalize_stored(value))
        case ["struct", fields]:
            return ("struct", tuple((name, _normalize_stored(part)) for name, part, _ in fields))
        case str() if match := _DECIMAL.fullmatch(kind):
            return f"decimal({match[1]},{match[2]})"
        case str() if kind in _FROM_ICEBERG:
            return _FROM_ICEBERG[kind]
        case _:
            return ("iceberg", str(kind))


def to_stored_type(kind: Type) -> Type:
    """The type as which a table holds it: small whole numbers have one, and what has no value is a text."""
    return _replace_types(kind, {"tinyint": "int", "smallint": "int", "void": "string"})


def widen_small_integers(kind: Type) -> Type:
    """The type with one type for small whole numbers; what has no value still has no type."""
    return _replace_types(kind, {"tinyint": "int", "smallint": "int"})


def _replace_types(kind: Type, replacements: Mapping[Type, Type]) -> Type:
    match kind:
        case ("array", element):
            return ("array", _replace_types(element, replacements))
        case ("map", key, value):
            return ("map", _replace_types(key, replacements), _replace_types(value, replacements))
        case ("struct", fields):
            return ("struct", tuple((name, _replace_types(part, replacements)) for name, part in fields))
        case _:
            return replacements.get(kind, kind)


def find_common_type(first: Type, second: Type) -> Type | None:
    """The type for rows of which some have one type and some another; None when there is none."""
    match first, second:
        case _ if first == second:
            return first
        case "void", _:
            return second
        case _, "void":
            return first
        case ("array", left), ("array", right):
            element = find_common_type(left, right)
            return None if element is None else ("array", element)
        case ("map", key, left), ("map", other_key, right):
            keys, value = find_common_type(key, other_key), find_common_type(left, right)
            return None if keys is None or value is None else ("map", keys, value)
        case ("struct", left), ("struct", right):
            return _find_common_struct(left, right)
        case str(), str():
            return _find_common_number(first, second)
        case _:
            return None


def _find_common_struct(left: Any, right: Any) -> Type | None:
    coming = {name.lower(): (name, part) for name, part in right}
    fields = []
    for name, part in left:
        _, other = coming.pop(name.lower(), (name, "void"))
        kind = find_common_type(part, other)
        if kind is None:
            return None
        fields.append((name, kind))
    return ("struct", (*fields, *coming.values()))


def _find_common_number(first: str, second: str) -> Type | None:
    if not (is_number(first) and is_number(second)):
        return None
    both = (first, second)
    if all(kind in _WHOLE for kind in both):
        return max(both, key=_WHOLE.index)
    if any(kind in _FRACTIONS for kind in both):
        return "double"
    digits, scales = zip(*(_count_digits(kind) for kind in both), strict=True)
    scale = max(scales)
    return f"decimal({min(_MAX_PRECISION, max(digits) + scale)},{scale})"


def _count_digits(kind: str) -> tuple[int, int]:
    """How many digits a number has before and after the point."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    precision, scale = parse_decimal(kind)
    return precision - scale, scale


def is_number(kind: Type) -> bool:
    """Whether values of a type are numbers."""
    return isinstance(kind, str) and (kind in _WHOLE or kind in _FRACTIONS or kind.startswith("decimal("))


def widen_type(table: Type, rows: Type) -> Type | None:
    """The type that a table's column gets so that it takes rows of another type; None when it cannot take them.

    It becomes wider where no file has to be rewritten for that. Where it cannot, numbers are taken that are the same
    number in the table's type, which is seen when they come.
    """
    match table, rows:
        case _ if rows == "void" or table == rows:
            return table
        case ("array", left), ("array", right):
            element = widen_type(left, right)
            return None if element is None else ("array", element)
        case ("map", key, left), ("map", other_key, right):
            value = widen_type(left, right)
            return None if value is None or not can_hold(key, other_key) else ("map", key, value)
        case ("struct", left), ("struct", right):
            return _widen_struct(left, right)
        case str(), str() if is_number(table) and is_number(rows):
            return rows if can_widen(table, rows) else table
        case _:
            return None


def _widen_struct(left: Any, right: Any) -> Type | None:
    coming = {name.lower(): (name, part) for name, part in right}
    fields = []
    for name, part in left:
        _, other = coming.pop(name.lower(), (name, "void"))
        kind = widen_type(part, other)
        if kind is None:
            return None
        fields.append((name, kind))
    return ("struct", (*fields, *((name, to_stored_type(part)) for name, part in coming.values())))


def can_hold(table: Type, rows: Type) -> bool:
    """Whether a column of one type takes every value of another as it is."""
    match table, rows:
        case _ if rows == "void" or table == to_stored_type(rows):
            return True
        case ("array", left), ("array", right):
            return can_hold(left, right)
        case ("map", key, left), ("map", other_key, right):
            return can_hold(key, other_key) and can_hold(left, right)
        case ("struct", left), ("struct", right):
            known = {name.lower(): part for name, part in left}
            return all(name.lower() in known and can_hold(known[name.lower()], part) for name, part in right)
        case _:
            return can_widen(rows, table)


def can_widen(old: Type, new: Type) -> bool:
    """Whether a table's column can become one of another type without a file being rewritten."""
    if (old, new) in (("int", "bigint"), ("float", "double")):
        return True
    if not (str(old).startswith("decimal(") and str(new).startswith("decimal(")):
        return False
    (precision, scale), (wider, same) = parse_decimal(old), parse_decimal(new)
    return scale == same and wider > precision


def has_empty_struct(kind: Type) -> bool:
    """Whether there is a structure without fields somewhere in a type."""
    match kind:
        case ("array", element):
            return has_empty_struct(element)
        case ("map", key, value):
            return has_empty_struct(key) or has_empty_struct(value)
        case ("struct", fields):
            return not fields or any(has_empty_struct(part) for _, part in fields)
        case _:
            return False


def to_json_type(kind: Type) -> Any:
    """A type in Spark's JSON notation, in which every part may be NULL."""
    match kind:
        case ("array", element):
            return {"type": "array", "elementType": to_json_type(element), "containsNull": True}
        case ("map", key, value):
            return {
                "type": "map",
                "keyType": to_json_type(key),
                "valueType": to_json_type(value),
                "valueContainsNull": True,
            }
        case ("struct", fields):
            parts = [{"name": n, "type": to_json_type(part), "nullable": True, "metadata": {}} for n, part in fields]
            return {"type": "struct", "fields": parts}
        case _:
            return _JSON_NAMES.get(kind, kind)


def parse_decimal(kind: Type) -> tuple[int, int]:
    """The precision and the scale of a decimal."""
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def format_type(kind: Type) -> str:
    """A type as an error names it."""
    return str(kind[1]) if kind[0] == "iceberg" else format_sql_type(kind).lower()
