"""Types of the columns that a loader gives: of Python's values and of Arrow's columns, and one type for several.

A type is one of `types.values`, or `VOID` where no value has been seen; an array, map or struct holds such
types. What is handed to the build has one Arrow type for each.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from sqb.types.values import Type, format_sql_type

VOID = "void"
_WIDTHS = ("tinyint", "smallint", "int", "bigint")
_MAX_PRECISION = 38
# How many digits a whole number of a type may have, where it becomes a decimal.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


class UnfitValue(Exception):
    """A value that no column can hold, or two that one column cannot; says why."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def format_type(kind: Type) -> str:
    """A type as an error names it."""
    return format_sql_type(kind).lower().replace("`", "")


# --- one type for two -----------------------------------------------------------------------------------------------


def join_types(left: Type, right: Type) -> Type | None:
    """The type that holds the values of both without loss; None when there is none."""
    match left, right:
        case _ if left == right:
            return left
        case ("void", other) | (other, "void"):
            return other
        case ("array", one), ("array", two):
            inner = join_types(one, two)
            return None if inner is None else ("array", inner)
        case ("map", k1, v1), ("map", k2, v2):
            key, value = join_types(k1, k2), join_types(v1, v2)
            return None if key is None or value is None else ("map", key, value)
        case ("struct", one), ("struct", two):
            return _join_fields(dict(one), dict(two))
        case str(), str():
            return _join_numbers(left, right)
        case _:
            return None


def _join_fields(left: dict[str, Type], right: dict[str, Type]) -> Type | None:
    names = list(dict.fromkeys((*left, *right)))
    kinds = [join_types(left.get(name, VOID), right.get(name, VOID)) for name in names]
    if any(kind is None for kind in kinds):
        return None
    return ("struct", tuple(zip(names, kinds, strict=True)))


def _join_numbers(left: str, right: str) -> Type | None:
    if left in _WIDTHS and right in _WIDTHS:
        return max(left, right, key=_WIDTHS.index)
    if {left, right} <= {*_WIDTHS, "float", "double"}:
        return "double"
    left_digits, right_digits = _parse_precision(left), _parse_precision(right)
    if left_digits is None or right_digits is None:
        return None
    scale = max(left_digits[1], right_digits[1])
    digits = max(left_digits[0] - left_digits[1], right_digits[0] - right_digits[1]) + scale
    return f"decimal({digits},{scale})" if digits <= _MAX_PRECISION else None


def _parse_precision(kind: str) -> tuple[int, int] | None:
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    if not kind.startswith("decimal("):
        return None
    digits, _, scale = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(digits), int(scale)


# --- types of Python's values ---------------------------------------------------------------------------------------


def unwrap_value(value: Any) -> Any:
    """A value without what other packages put around it: NumPy's numbers, pandas' times, missing values."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "tolist"):
        return unwrap_value(value.tolist())
    if module == "pandas":
        if kind.__name__ in ("NaTType", "NAType"):
            return None
        if hasattr(value, "to_pydatetime"):
            return value.to_pydatetime(warn=False)
    match value:
        case list() | tuple():
            fields = getattr(value, "_fields", None)
            return (
                {n: unwrap_value(v) for n, v in zip(fields, value, strict=True)}
                if fields
                else [unwrap_value(v) for v in value]
            )
        case dict():
            return {key: unwrap_value(item) for key, item in value.items()}
        case UUID():
            return str(value)
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


def infer_type(value: Any) -> Type:
    """The type of a plain value."""
    match value:
        case None:
            return VOID
        case bool():
            return "boolean"
        case int():
            if not -(2**63) <= value < 2**63:
                raise UnfitValue(
                    f"{value} is too large for a bigint", 'give the column a type: columns={"…": "decimal(38,0)"}'
                )
            return "bigint"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "binary"
        case datetime():
            return "timestamp_ntz" if value.tzinfo is None else "timestamp"
        case date():
            return "date"
        case Decimal():
            return _infer_decimal_type(value)
        case list():
            return ("array", _infer_item_type(value))
        case dict():
            return ("struct", tuple((_check_field_name(key), infer_type(item)) for key, item in value.items()))
    raise UnfitValue(f"{type(value).__name__} is not a type that a column can have", _suggest_conversion(value))


def _infer_decimal_type(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise UnfitValue(f"{value} is a decimal that no column can hold", "use None, or a float")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > _MAX_PRECISION:
        raise UnfitValue(f"{value} has {precision} digits, and a decimal at most {_MAX_PRECISION}", "round it")
    return f"decimal({precision},{scale})"


def _infer_item_type(items: list[Any]) -> Type:
    item_type: Type = VOID
    for item in items:
        kind = infer_type(item)
        joined_type = join_types(item_type, kind)
        if joined_type is None:
            raise UnfitValue(
                f"a list holds {format_type(item_type)} and {format_type(kind)}", "give all of its items one type"
            )
        item_type = joined_type
    return item_type


def _check_field_name(key: Any) -> str:
    if not isinstance(key, str):
        raise UnfitValue(
            f"a mapping has the key {key!r}, and fields have texts as names",
            'a map needs its type: columns={"…": "map<int, string>"}',
        )
    return key


def _suggest_conversion(value: Any) -> str:
    match value:
        case time() | timedelta():
            return "write it as text, or as a number of seconds"
        case set() | frozenset():
            return "write it as a list: sorted(…)"
        case _:
            return "use None, booleans, numbers, texts, bytes, dates, times, Decimals, lists and mappings"


# --- Arrow's types --------------------------------------------------------------------------------------------------

_TO_ARROW: dict[str, pa.DataType] = {
    VOID: pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_FROM_ARROW: dict[pa.DataType, str] = {
    **{kind: name for name, kind in _TO_ARROW.items()},
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date64(): "date",
}


def to_arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which values of a type are handed over."""
    match kind:
        case ("array", element):
            return pa.list_(to_arrow_type(element))
        case ("map", key, value):
            return pa.map_(to_arrow_type(key), to_arrow_type(value))
        case ("struct", fields):
            return pa.struct([pa.field(name, to_arrow_type(part)) for name, part in fields])
        case str() if kind in _TO_ARROW:
            return _TO_ARROW[kind]
    precision = _parse_precision(kind) if isinstance(kind, str) else None
    if precision is None:
        raise UnfitValue(f"a loader cannot give columns of the type {format_sql_type(kind)}")
    return pa.decimal128(*precision)


def from_arrow_type(kind: pa.DataType) -> Type:
    """The type of a column that Arrow describes."""
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_PRECISION:
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_dictionary(kind):
        return from_arrow_type(kind.value_type)
    if types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return ("array", from_arrow_type(kind.value_type))
    if types.is_map(kind):
        return ("map", from_arrow_type(kind.key_type), from_arrow_type(kind.item_type))
    if types.is_struct(kind):
        return ("struct", tuple((field.name, from_arrow_type(field.type)) for field in kind))
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in ("arrow.uuid", "arrow.json"):
        return "string"
    raise UnfitValue(
        f"{kind} is not a type that a column can have", "cast it to one that can be stored, for instance string"
    )
