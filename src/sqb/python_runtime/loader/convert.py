"""Python's values as values of a type that a loader declares: texts are read as seeds are, nothing is rounded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqb.types import model as m
from sqb.types.infer import unwrap_value
from sqb.types.model import ArrayType, DecimalType, MapType, SimpleType, StructType, Type
from sqb.types.text import parse_value

Convert = Callable[[Any], Any]


def build_converter(kind: Type) -> Convert:
    """What makes a value one of a type; it raises ValueError for a value that cannot be one."""
    to = _build_converter(kind)

    def convert(value: Any) -> Any:
        value = unwrap_value(value)
        return None if value is None else to(value)

    return convert


def _build_converter(kind: Type) -> Convert:
    match kind:
        case ArrayType(element):
            return _build_list_converter(_build_nullable(element))
        case MapType(key, part):
            return _build_map_converter(_build_nullable(key), _build_nullable(part))
        case StructType(fields):
            return _build_struct_converter({f.name: _build_nullable(f.type) for f in fields})
        case m.STRING:
            return _to_text
        case SimpleType("double" | "float"):
            return _to_float
        case m.BOOLEAN:
            return _to_boolean
        case m.BINARY:
            return _to_binary
        case m.DATE:
            return _to_date
        case SimpleType("timestamp" | "timestamp_ntz"):
            return lambda value: _to_timestamp(kind, value)
        case DecimalType():
            return lambda value: _to_decimal(kind, value)
        case _:
            bits = m.INTEGER_BITS[kind]
            return lambda value: _to_integer(value, bits)


def _build_nullable(kind: Type) -> Convert:
    to = _build_converter(kind)
    return lambda value: None if value is None else to(value)


def _build_list_converter(item: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [item(element) for element in value]

    return convert


def _build_map_converter(key: Convert, item: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict) or any(k is None for k in value):
            raise ValueError
        return [(key(k), item(v)) for k, v in value.items()]

    return convert


def _build_struct_converter(fields: Mapping[str, Convert]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        unknown = next((key for key in value if key not in fields), None)
        if unknown is not None:
            raise ValueError(f'the type has no field "{unknown}"')
        return {name: to(value.get(name)) for name, to in fields.items()}

    return convert


def _to_text(value: Any) -> str:
    match value:
        case str():
            return str(value)
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(sep=" ")
        case int() | float() | Decimal() | date():
            return str(value)
        case list() | dict():
            # A column of texts is where people put JSON that they take apart later.
            return json.dumps(value, default=str, ensure_ascii=False)
    raise ValueError


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return bool(_parse_text(m.BOOLEAN, value))
    raise ValueError


def _to_integer(value: Any, bits: int) -> int:
    match value:
        case bool():
            raise ValueError
        case int():
            number = int(value)
        case float() if value.is_integer():
            number = int(value)
        case Decimal() if value.is_finite() and value == value.to_integral_value():
            number = int(value)
        case str():
            number = _parse_text(m.BIGINT, value)
        case _:
            raise ValueError
    if not -(2**bits) <= number < 2**bits:
        raise ValueError("it is too large")
    return number


def _to_float(value: Any) -> float:
    match value:
        case bool():
            raise ValueError
        case float():
            return value
        case int() | Decimal():
            number = float(value)
            if isinstance(value, int) and int(number) != value:
                raise ValueError("it has too many digits")
            return number
        case str():
            return float(_parse_text(m.DOUBLE, value))
    raise ValueError


def _to_decimal(kind: Type, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    number: Decimal = _parse_text(kind, f"{value:f}" if isinstance(value, Decimal) else str(value))
    return number


def _to_binary(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
    raise ValueError


def _to_date(value: Any) -> date:
    match value:
        case datetime():
            if value != datetime(value.year, value.month, value.day, tzinfo=value.tzinfo):
                raise ValueError("it has a time of day")
            return value.date()
        case date():
            return value
        case str():
            return _to_date(_parse_iso(value))
    raise ValueError


def _to_timestamp(kind: Type, value: Any) -> datetime:
    match value:
        case str():
            return _to_timestamp(kind, _parse_iso(value))
        case datetime():
            if kind == m.TIMESTAMP_NTZ:
                if value.tzinfo is not None:
                    raise ValueError("it has a time zone")
                return value
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value
        case date():
            return _to_timestamp(kind, datetime(value.year, value.month, value.day))
    raise ValueError


def _parse_text(kind: Type, text: str) -> Any:
    try:
        return parse_value(kind, text)
    except ValueError:
        raise ValueError from None  # its words repeat the text


def _parse_iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError from None


def format_refusal(kind: Type, value: Any, why: str) -> str:
    """Why a value cannot be one of a type, in words."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return f"{shown} is not a valid {kind}" + (f": {why}" if why else "")
