"""Types of Iceberg's tables: as which type a column is stored, as which Spark reads it, and what it may become.

Plain JSON, without pyiceberg. A column's state has its type as compact JSON: a name such as `"long"`, or a list that
begins with `list`, `map` or `struct` and says last whether the parts are required.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqb.types import model as m
from sqb.types.model import ArrayType, DecimalType, Field, IcebergType, MapType, OpaqueType, StructType, TimeType, Type
from sqb.types.parse import parse_declared_type

_NAMES: Mapping[Type, str] = {
    m.BOOLEAN: "boolean",
    m.INT: "int",
    m.BIGINT: "long",
    m.FLOAT: "float",
    m.DOUBLE: "double",
    m.DATE: "date",
    m.TIMESTAMP: "timestamptz",
    m.TIMESTAMP_NTZ: "timestamp",
    m.STRING: "string",
    m.BINARY: "binary",
}
_FROM_NAMES: Mapping[str, Type] = {name: kind for kind, name in _NAMES.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_PROMOTIONS = {(m.INT, m.BIGINT), (m.FLOAT, m.DOUBLE)}


class NotStorable(ValueError):
    """A type that no column of a table can have, and the path to it."""

    def __init__(self, kind: Type, path: str) -> None:
        super().__init__(f"{path} is {kind}")
        self.kind, self.path = kind, path


def to_stored_type(kind: Type) -> Type:
    """The type as which a table holds values of a type: Iceberg has no small integers, and one type for texts."""
    return m.replace_leaves(m.to_plain_text(kind), lambda part: m.INT if part in (m.TINYINT, m.SMALLINT) else part)


def can_store(kind: Type) -> bool:
    """Whether a column of a table can hold values of a type."""
    try:
        to_iceberg_json(kind, "")
    except NotStorable:
        return False
    return True


def parse_storable_type(text: str) -> Type | None:
    """The type that a text gives a table's column; None when it is not a type, or none that a table can hold."""
    kind = parse_declared_type(text)
    return kind if kind is not None and can_store(kind) else None


def to_iceberg_json(kind: Type, path: str) -> Any:
    """A type as a table's schema has it, with 0 for every id; raises `NotStorable` with the path of what cannot be."""
    match kind:
        case ArrayType(element):
            return {
                "type": "list",
                "element-id": 0,
                "element": to_iceberg_json(element, f"{path}.element"),
                "element-required": not kind.contains_null,
            }
        case MapType(key, value):
            return {
                "type": "map",
                "key-id": 0,
                "key": to_iceberg_json(key, f"{path}.key"),
                "value-id": 0,
                "value": to_iceberg_json(value, f"{path}.value"),
                "value-required": not kind.contains_null,
            }
        case StructType(fields):
            return {"type": "struct", "fields": [_to_json_field(part, path) for part in fields]}
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case IcebergType(name):
            return name
    stored = to_stored_type(kind)
    if stored not in _NAMES:
        raise NotStorable(kind, path)
    return _NAMES[stored]


def _to_json_field(part: Field, path: str) -> Any:
    kind = to_iceberg_json(part.type, f"{path}.{part.name}")
    return {"id": 0, "name": part.name, "required": not part.nullable, "type": kind}


def parse_stored_type(text: str) -> Type:
    """The type of a column that a table has, from the text in its state."""
    return _from_plain_json(json.loads(text))


# A project has thousands of columns and a handful of types.
@lru_cache(maxsize=4096)
def read_stored_type(text: str) -> Type:
    """The type with which Spark reads a column that a table has, from the text in its state."""
    return to_spark_type(parse_stored_type(text))


def _from_plain_json(kind: Any) -> Type:
    match kind:
        case ["list", element, *required]:
            return ArrayType(_from_plain_json(element), not any(required))
        case ["map", key, value, *required]:
            return MapType(_from_plain_json(key), _from_plain_json(value), not any(required))
        case ["struct", fields]:
            return StructType(tuple(Field(name, _from_plain_json(part), not any(r)) for name, part, *r in fields))
        case _:
            return parse_iceberg_name(str(kind))


def parse_iceberg_name(name: str) -> Type:
    """The type that Iceberg calls by a name, such as `timestamptz` or `decimal(10, 2)`."""
    match = _DECIMAL.fullmatch(name)
    return DecimalType(int(match[1]), int(match[2])) if match else _FROM_NAMES.get(name) or IcebergType(name)


def to_spark_type(kind: Type) -> Type:
    """The type with which Spark reads a stored column: it has no type of its own for all of Iceberg's."""
    return m.replace_leaves(kind, _read_leaf)


def _read_leaf(kind: Type) -> Type:
    match kind:
        case IcebergType("uuid"):
            return m.STRING
        case IcebergType("unknown"):
            return m.VOID
        case IcebergType("variant"):
            return m.VARIANT
        case IcebergType("time"):
            return TimeType(6)
        case IcebergType(name):
            return m.BINARY if name.startswith("fixed") else OpaqueType(name.replace(" ", ""))
        case _:
            return kind


def can_promote(old: Type, new: Type) -> bool:
    """Whether a table's column can become one of another type: Iceberg reads its files as they are, or refuses."""
    match old, new:
        case DecimalType(precision, scale), DecimalType(wider, same):
            return scale == same and wider >= precision
        case _:
            return old == new or (old, new) in _PROMOTIONS
