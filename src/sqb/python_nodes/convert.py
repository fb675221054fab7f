"""Python's values as values of a type that a loader declares: texts are read as seeds are, nothing is rounded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqb.project.column_types import Type
from sqb.project.seed_types import parse
from sqb.python_nodes.kinds import plain, shown_type

_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
Convert = Callable[[Any], Any]


def converter(kind: Type) -> Convert:
    """What makes a value one of a type; it raises ValueError for a value that cannot be one."""
    to = _converter(kind)

    def convert(value: Any) -> Any:
        value = plain(value)
        return None if value is None else to(value)

    return convert


def _converter(kind: Type) -> Convert:
    match kind:
        case ("array", element):
            return _list_of(_nullable(element))
        case ("map", key, part):
            return _map_of(_nullable(key), _nullable(part))
        case ("struct", fields):
            return _struct_of({name: _nullable(part) for name, part in fields})
        case "string":
            return _text
        case "double" | "float":
            return _float
        case "boolean":
            return _boolean
        case "binary":
            return _binary
        case "date":
            return _date
        case "timestamp" | "timestamp_ntz":
            return lambda value: _moment(kind, value)
        case _ if kind in _BITS:
            return lambda value: _whole(value, _BITS[kind])
        case _:
            return lambda value: _decimal(kind, value)


def _nullable(kind: Type) -> Convert:
    to = _converter(kind)
    return lambda value: None if value is None else to(value)


def _list_of(item: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [item(one) for one in value]

    return convert


def _map_of(key: Convert, item: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict) or any(k is None for k in value):
            raise ValueError
        return [(key(k), item(v)) for k, v in value.items()]

    return convert


def _struct_of(fields: Mapping[str, Convert]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        unknown = next((key for key in value if key not in fields), None)
        if unknown is not None:
            raise ValueError(f'the type has no field "{unknown}"')
        return {name: to(value.get(name)) for name, to in fields.items()}

    return convert


def _text(value: Any) -> str:
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


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return bool(_read("boolean", value))
    raise ValueError


def _whole(value: Any, bits: int) -> int:
    match value:
        case bool():
            raise ValueError
        case int():
            found = int(value)
        case float() if value.is_integer():
            found = int(value)
        case Decimal() if value.is_finite() and value == value.to_integral_value():
            found = int(value)
        case str():
            found = _read("bigint", value)
        case _:
            raise ValueError
    if not -(2**bits) <= found < 2**bits:
        raise ValueError("it is too large")
    return found


def _float(value: Any) -> float:
    match value:
        case bool():
            raise ValueError
        case float():
            return value
        case int() | Decimal():
            found = float(value)
            if isinstance(value, int) and int(found) != value:
                raise ValueError("it has too many digits")
            return found
        case str():
            return float(_read("double", value))
    raise ValueError


def _decimal(kind: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    found: Decimal = _read(kind, f"{value:f}" if isinstance(value, Decimal) else str(value))
    return found


def _binary(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
    raise ValueError


def _date(value: Any) -> date:
    match value:
        case datetime():
            if value != datetime(value.year, value.month, value.day, tzinfo=value.tzinfo):
                raise ValueError("it has a time of day")
            return value.date()
        case date():
            return value
        case str():
            return _date(_iso(value))
    raise ValueError


def _moment(kind: str, value: Any) -> datetime:
    match value:
        case str():
            return _moment(kind, _iso(value))
        case datetime():
            if kind == "timestamp_ntz":
                if value.tzinfo is not None:
                    raise ValueError("it has a time zone")
                return value
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value
        case date():
            return _moment(kind, datetime(value.year, value.month, value.day))
    raise ValueError


def _read(kind: str, text: str) -> Any:
    try:
        return parse(kind, text)
    except ValueError:
        raise ValueError from None  # its words repeat the text


def _iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError from None


def refusal(kind: Type, value: Any, why: str) -> str:
    """Why a value cannot be one of a type, in words."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return f"{shown} is no {shown_type(kind)}" + (f": {why}" if why else "")
