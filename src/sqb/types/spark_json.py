"""Types in the JSON notation of Spark's schemas, which says of every part whether it may be NULL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.types.model import ArrayType, Field, MapType, OpaqueType, SimpleType, StructType, Type
from sqb.types.parse import parse_type

_JSON_NAMES: Mapping[str, str] = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


def from_json_type(kind: Any) -> Type:
    """A type in Spark's JSON notation, decoded."""
    match kind:
        case {"type": "array", "elementType": element}:
            return ArrayType(from_json_type(element), kind.get("containsNull", True))
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapType(from_json_type(key), from_json_type(value), kind.get("valueContainsNull", True))
        case {"type": "struct", "fields": fields}:
            return StructType(
                tuple(Field(f["name"], from_json_type(f["type"]), f.get("nullable", True)) for f in fields)
            )
        case str():
            return parse_type(kind) or OpaqueType(kind)
        case {"type": str(name)}:
            return OpaqueType(name)
        case _:
            return OpaqueType(str(kind))


def to_json_type(kind: Type) -> Any:
    """A type in Spark's JSON notation."""
    match kind:
        case ArrayType(element):
            return {"type": "array", "elementType": to_json_type(element), "containsNull": kind.contains_null}
        case MapType(key, value):
            return {
                "type": "map",
                "keyType": to_json_type(key),
                "valueType": to_json_type(value),
                "valueContainsNull": kind.contains_null,
            }
        case StructType(fields):
            parts = [
                {"name": f.name, "type": to_json_type(f.type), "nullable": f.nullable, "metadata": {}} for f in fields
            ]
            return {"type": "struct", "fields": parts}
        case SimpleType(name):
            return _JSON_NAMES.get(name, name)
        case _:
            return str(kind)
