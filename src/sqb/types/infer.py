"""The types of Python's values, as loaders give them; `VOID` where no value has been seen."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqb.types import model as m
from sqb.types.loaded import join_types
from sqb.types.model import MAX_PRECISION, ArrayType, DecimalType, Field, StructType, Type


class UnfitValue(Exception):
    """A value that no column can hold, or two that one column cannot; says why."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


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
            return m.VOID
        case bool():
            return m.BOOLEAN
        case int():
            if not -(2**63) <= value < 2**63:
                raise UnfitValue(
                    f"{value} is too large for a bigint", 'give the column a type: columns={"…": "decimal(38,0)"}'
                )
            return m.BIGINT
        case float():
            return m.DOUBLE
        case str():
            return m.STRING
        case bytes():
            return m.BINARY
        case datetime():
            return m.TIMESTAMP_NTZ if value.tzinfo is None else m.TIMESTAMP
        case date():
            return m.DATE
        case Decimal():
            return _infer_decimal_type(value)
        case list():
            return ArrayType(_infer_item_type(value))
        case dict():
            return _infer_struct_type(value)
    raise UnfitValue(f"{type(value).__name__} is not a type that a column can have", _suggest_conversion(value))


def _infer_struct_type(value: dict[Any, Any]) -> Type:
    kind = StructType(tuple(Field(_check_field_name(key), infer_type(item)) for key, item in value.items()))
    if len(kind.fold_fields()) < len(kind.fields):
        raise UnfitValue(
            f"a mapping has two keys that differ only in case: {', '.join(map(repr, value))}",
            "names of fields that differ only in case are the same",
        )
    return kind


def _infer_decimal_type(value: Decimal) -> Type:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise UnfitValue(f"{value} is a decimal that no column can hold", "use None, or a float")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MAX_PRECISION:
        raise UnfitValue(f"{value} has {precision} digits, and a decimal at most {MAX_PRECISION}", "round it")
    return DecimalType(precision, scale)


def _infer_item_type(items: list[Any]) -> Type:
    item_type: Type = m.VOID
    for item in items:
        kind = infer_type(item)
        joined_type = join_types(item_type, kind)
        if joined_type is None:
            raise UnfitValue(f"a list holds {item_type} and {kind}", "give all of its items one type")
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
