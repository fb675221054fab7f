"""What CAST accepts under ANSI, by type; single values may still fail. tests/spark/test_types.py asks Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.types import model as m
from sqb.types.model import ArrayType, DecimalType, IntervalType, MapType, StructType, TimeType, Type

_NUMBERS = frozenset({"integer", "fraction", "decimal"})
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
_SCALARS = _NUMBERS | _MOMENTS | {"boolean", "binary", "time", "text", "variant"}
_INTERVALS = frozenset({"year_month", "day_time"})
# The classes that values of a class can be cast to.
_TARGETS: Mapping[str, frozenset[str]] = {
    "boolean": _NUMBERS | {"boolean", "text", "variant"},
    "integer": _NUMBERS | _INTERVALS | {"boolean", "timestamp", "text", "variant"},
    "decimal": _NUMBERS | _INTERVALS | {"boolean", "timestamp", "text", "variant"},
    "fraction": _NUMBERS | {"boolean", "timestamp", "text", "variant"},
    "date": _MOMENTS | {"text", "variant"},
    "timestamp": _NUMBERS | _MOMENTS | {"text", "variant"},
    "timestamp_ntz": _MOMENTS | {"text", "variant"},
    "time": frozenset({"integer", "decimal", "time", "text", "variant"}),
    "text": _SCALARS | _INTERVALS | {"interval"},
    "binary": frozenset({"binary", "text", "variant"}),
    "year_month": frozenset({"integer", "decimal", "text", "year_month"}),
    "day_time": frozenset({"integer", "decimal", "text", "day_time"}),
    "interval": frozenset({"interval", "text"}),
    "variant": _SCALARS,
}


def can_cast(source: Type, target: Type) -> bool:
    """Whether Spark accepts CAST from one type to another; what is unknown may be cast."""
    match source, target:
        case _ if source == target or source == m.VOID or m.UNKNOWN in (source, target):
            return True
        case ArrayType(one), ArrayType(two):
            return can_cast(one, two)
        case MapType(key, one), MapType(other_key, two):
            return can_cast(key, other_key) and can_cast(one, two)
        case StructType(fields), StructType(others):
            return len(fields) == len(others) and all(map(can_cast, _list_types(fields), _list_types(others)))
        case ArrayType(element), m.VARIANT:
            return element != m.VOID and can_cast(element, target)
        case m.VARIANT, ArrayType(element):
            return can_cast(source, element)
        case m.VARIANT, MapType(key, value):
            return key == m.STRING and can_cast(source, value)
        case m.VARIANT, StructType(fields):
            return all(can_cast(source, f.type) for f in fields)
        case ((ArrayType() | MapType() | StructType()), _):
            return m.is_text(target)
        case _:
            return _classify(target) in _TARGETS.get(_classify(source), ())


def _list_types(fields: tuple[m.Field, ...]) -> list[Type]:
    return [f.type for f in fields]


def _classify(kind: Type) -> str:
    match kind:
        case DecimalType():
            return "decimal"
        case TimeType():
            return "time"
        case IntervalType(first):
            return "year_month" if first in ("year", "month") else "day_time"
        case _ if m.is_text(kind):
            return "text"
        case _ if m.is_integer(kind):
            return "integer"
        case _ if m.is_fraction(kind):
            return "fraction"
        case _:
            return str(kind)
