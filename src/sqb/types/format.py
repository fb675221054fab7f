"""Types as SQL. What people read of a type is its text: `str(kind)`."""

from __future__ import annotations

from sqb.names import quote
from sqb.types.model import ArrayType, CollatedType, MapType, StructType, Type


def format_sql_type(kind: Type) -> str:
    """A type as it is written in Spark's SQL."""
    match kind:
        case ArrayType(element):
            return f"ARRAY<{format_sql_type(element)}>"
        case MapType(key, value):
            return f"MAP<{format_sql_type(key)}, {format_sql_type(value)}>"
        case StructType(fields):
            return "STRUCT<" + ", ".join(f"{quote(f.name)}: {format_sql_type(f.type)}" for f in fields) + ">"
        case CollatedType(collation):
            return f"STRING COLLATE {collation}"
        case _:
            return str(kind).upper()
