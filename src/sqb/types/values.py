"""Values of column types: what rows that people write down mean, and how Spark's are compared with them.

A value is canonical: equal values of one type are equal in Python and can be hashed, NaN and NULL included.
"""

from __future__ import annotations

import math
import struct
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

from sqb.names import suggest_nearest
from sqb.types import model as m
from sqb.types.common import common_type
from sqb.types.format import format_sql_type
from sqb.types.literals import format_literal
from sqb.types.model import ArrayType, DecimalType, Field, MapType, SimpleType, StructType, Type
from sqb.types.text import parse_value

_NOT_A_NUMBER = "NaN"
_COLLECTED = (m.BOOLEAN, m.BINARY, m.VOID)


def to_collected_type(kind: Type) -> Type:
    """The type as which a value leaves Spark: times as text, as Python's know neither Spark's zone nor its range."""
    return m.replace_leaves(kind, lambda part: part if part in _COLLECTED or m.is_number(part) else m.STRING)


# --- values as people write them ------------------------------------------------------------------------------------
#
# A cell is what YAML or CSV holds, as plain data: None, a boolean, a number, a text, or a list that begins with what it
# is: ["int", text, as written], ["float", text, as written], ["date", …], ["timestamp", …], ["bool", …],
# ["binary", hex], ["list", cells], ["map", [[key, cell], …]].


def format_cell(cell: Any) -> str:
    """A scalar as it was written."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case [str(), str() as text]:
            return text
        case [str(), _, str() as written]:
            return written
        case _:
            return str(cell)


def describe_cell(cell: Any) -> str:
    """A cell as an error names it."""
    match cell:
        case None:
            return "NULL"
        case str():
            return f'"{cell}"'
        case ["list", _]:
            return "a list"
        case ["map", _]:
            return "a mapping"
        case _:
            return format_cell(cell)


def infer_cell_type(cell: Any) -> Type | None:
    """The type that a cell has by itself; None for NULL."""
    match cell:
        case None:
            return None
        case bool() | ["bool", *_]:
            return m.BOOLEAN
        case int() | ["int", *_]:
            return m.BIGINT
        case ["float", *_]:
            return m.DOUBLE
        case ["date", *_]:
            return m.DATE
        case ["timestamp", *_]:
            return m.TIMESTAMP
        case ["binary", _]:
            return m.BINARY
        case ["list", cells]:
            return ArrayType(infer_common_type(cells))
        case ["map", pairs]:
            return StructType(tuple(Field(key, infer_cell_type(value) or m.STRING) for key, value in pairs))
        case _:
            return m.STRING


def infer_common_type(cells: Any) -> Type:
    """One type for all cells of a column: numbers and times widen, anything else that differs is text."""
    kinds = list(dict.fromkeys(kind for cell in cells if (kind := infer_cell_type(cell)) is not None))
    match kinds:
        case []:
            return m.STRING
        case [one]:
            return one
        case _ if all(map(m.is_number, kinds)) or set(kinds) <= {m.DATE, m.TIMESTAMP}:
            return reduce(lambda one, other: common_type(one, other) or m.STRING, kinds)
        case _ if all(isinstance(kind, StructType) for kind in kinds):
            names = dict.fromkeys(f.name for kind in kinds if isinstance(kind, StructType) for f in kind.fields)
            values = {n: [dict(c[1]).get(n) for c in cells if c is not None] for n in names}
            return StructType(tuple(Field(n, infer_common_type(items)) for n, items in values.items()))
        case _ if all(isinstance(kind, ArrayType) for kind in kinds):
            return ArrayType(infer_common_type([item for c in cells if c is not None for item in c[1]]))
        case _:
            return m.STRING


def convert_cell(kind: Type, cell: Any, zone: ZoneInfo | None = None) -> Any:
    """The canonical value that a cell stands for in a type; raises ValueError when it cannot be one.

    Numbers keep what was written: 9.5 is not a whole number, but may still be expected of a column of them.
    """
    if cell is None:
        return None
    match kind, cell:
        case ArrayType(element), ["list", cells]:
            return tuple(convert_cell(element, item, zone) for item in cells)
        case MapType(key, value), ["map", pairs]:
            return frozenset((convert_cell(key, k, zone), convert_cell(value, v, zone)) for k, v in pairs)
        case StructType(fields), ["map", pairs]:
            return _convert_struct(fields, pairs, zone)
        case StructType(fields), ["list", cells] if len(cells) == len(fields):
            return tuple(convert_cell(f.type, item, zone) for f, item in zip(fields, cells, strict=True))
        case ((ArrayType() | MapType() | StructType()), _) | (_, ["list" | "map", _]):
            raise ValueError("")
        case _:
            return _convert_scalar(kind, cell, zone)


def _convert_struct(fields: tuple[Field, ...], pairs: Any, zone: ZoneInfo | None) -> tuple[Any, ...]:
    known = {f.name.lower(): f.name for f in fields}
    values = {key.lower(): value for key, value in pairs}
    for key, _ in pairs:
        if key.lower() not in known:
            raise ValueError(f'no field is called "{key}"' + _format_hint(suggest_nearest(key, known.values())))
    return tuple(convert_cell(f.type, values.get(f.name.lower()), zone) for f in fields)


def _format_hint(hint: str | None) -> str:
    return f": {hint}" if hint else ""


def _convert_scalar(kind: Type, cell: Any, zone: ZoneInfo | None) -> Any:
    text = format_cell(cell)
    canonical = cell[1] if isinstance(cell, list) else text
    match kind:
        case m.BOOLEAN:
            return parse_value(kind, canonical)
        case m.BINARY:
            return bytes.fromhex(cell[1]) if isinstance(cell, list) and cell[0] == "binary" else text.encode()
        case m.DOUBLE | m.FLOAT:
            return _canonicalize_float(kind, parse_value(m.DOUBLE, canonical))
        case m.DATE:
            moment = datetime.fromisoformat(canonical)
            if moment != datetime(moment.year, moment.month, moment.day):
                raise ValueError("")
            return moment.date()
        case m.TIMESTAMP | m.TIMESTAMP_NTZ:
            return _parse_moment(kind, canonical, zone)
        case _ if m.is_number(kind):
            if isinstance(cell, bool):
                raise ValueError("")
            return _parse_number(canonical)
        case _:
            return text


def _parse_number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("") from None
    if not number.is_finite() or not text.isascii():
        raise ValueError("")
    return number


def _parse_moment(kind: Type, text: str, zone: ZoneInfo | None) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment
    if kind == m.TIMESTAMP_NTZ:
        raise ValueError("")
    return moment.astimezone(zone or ZoneInfo("UTC")).replace(tzinfo=None)


def _canonicalize_float(kind: Type, value: float) -> float | str:
    if math.isnan(value):
        return _NOT_A_NUMBER
    if kind == m.FLOAT and math.isfinite(value):
        narrow: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrow
    return value


def is_out_of_range(kind: Type, value: Any) -> bool:
    """Whether a canonical value is too large or too fine for its type, so that no row can hold it."""
    match kind, value:
        case _, None:
            return False
        case ArrayType(element), tuple():
            return any(is_out_of_range(element, item) for item in value)
        case MapType(key, part), frozenset():
            return any(k is None or is_out_of_range(key, k) or is_out_of_range(part, v) for k, v in value)
        case StructType(fields), tuple():
            return any(is_out_of_range(f.type, item) for f, item in zip(fields, value, strict=True))
        case _, Decimal() if m.is_integer(kind):
            limit = 2 ** m.INTEGER_BITS[kind]
            return value != value.to_integral_value() or not -limit <= value < limit
        case DecimalType(), Decimal():
            try:
                parse_value(kind, f"{value:f}")
            except ValueError:
                return True
    return False


# --- values as Spark gives them -------------------------------------------------------------------------------------


def canonicalize_collected(kind: Type, value: Any) -> Any:
    """The canonical value of one that was collected from Spark as `to_collected_type` of its type."""
    match kind, value:
        case _, None:
            return None
        case ArrayType(element), _:
            return tuple(canonicalize_collected(element, item) for item in value)
        case MapType(key, part), _:
            return frozenset(
                (canonicalize_collected(key, k), canonicalize_collected(part, v)) for k, v in value.items()
            )
        case StructType(fields), _:
            return tuple(canonicalize_collected(f.type, item) for f, item in zip(fields, value, strict=True))
        case _, float():
            return _canonicalize_float(kind, value)
        case m.BINARY, _:
            return bytes(value)
        case SimpleType("date" | "timestamp" | "timestamp_ntz"), str():
            return _parse_spark_moment(kind, value)
        case _, bool():
            return value
        case _, int():
            return Decimal(value)
        case _:
            return value


def _parse_spark_moment(kind: Type, text: str) -> Any:
    try:
        return date.fromisoformat(text) if kind == m.DATE else datetime.fromisoformat(text)
    except ValueError:
        return text  # a year that Python does not have


# --- values as text -------------------------------------------------------------------------------------------------


def format_sql_value(kind: Type, value: Any) -> str:
    """A canonical value as an SQL expression, which a cast to the type makes exact."""
    match kind, value:
        case _, None:
            return "NULL"
        case ArrayType(element), tuple():
            return "array(" + ", ".join(_format_cast(element, item) for item in value) + ")"
        case MapType(key, part), frozenset():
            return (
                "map("
                + ", ".join(f"{_format_cast(key, k)}, {_format_cast(part, v)}" for k, v in _sort_pairs(value))
                + ")"
            )
        case StructType(fields), tuple():
            inside = (
                f"{format_literal(f.name)}, {_format_cast(f.type, v)}" for f, v in zip(fields, value, strict=True)
            )
            return f"named_struct({', '.join(inside)})"
        case m.BINARY, bytes():
            return f"X'{value.hex()}'"
        case _:
            return format_literal(format_value(kind, value))


def _format_cast(kind: Type, value: Any) -> str:
    return f"CAST({format_sql_value(kind, value)} AS {format_sql_type(kind)})"


def _sort_pairs(pairs: frozenset[Any]) -> list[Any]:
    return sorted(pairs, key=repr)


def format_value(kind: Type, value: Any) -> str:
    """A canonical value as people read it, and as Spark would read it from text."""
    match kind, value:
        case _, None:
            return "NULL"
        case ArrayType(element), tuple():
            return "[" + ", ".join(format_value(element, item) for item in value) + "]"
        case MapType(key, part), frozenset():
            return (
                "{" + ", ".join(f"{format_value(key, k)}: {format_value(part, v)}" for k, v in _sort_pairs(value)) + "}"
            )
        case StructType(fields), tuple():
            inside = (f"{f.name}: {format_value(f.type, v)}" for f, v in zip(fields, value, strict=True))
            return "{" + ", ".join(inside) + "}"
        case _, bool():
            return "true" if value else "false"
        case m.BINARY, bytes():
            return f"0x{value.hex()}"
        case _, datetime():
            return value.isoformat(sep=" ")
        case _, float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case m.FLOAT, float():
            return next(t for p in range(6, 18) if _canonicalize_float(kind, float(t := f"{value:.{p}g}")) == value)
        case _, Decimal():
            return _format_number(kind, value)
        case _:
            return str(value)


def _format_number(kind: Type, value: Decimal) -> str:
    if m.is_integer(kind) and value == value.to_integral_value():
        return str(int(value))
    exponent = value.as_tuple().exponent
    if isinstance(kind, DecimalType) and isinstance(exponent, int) and -exponent < kind.scale:
        return f"{value:.{kind.scale}f}"
    return f"{value:f}"
