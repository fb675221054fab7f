"""Types of Arrow as types of Spark, and back to those that files are written with.

Types are those of `types.values`: a name such as `bigint`, or a tuple. `void` is a column without a value.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as at

from sqb.errors.lake import UnsupportedType
from sqb.types.merge import parse_decimal
from sqb.types.values import Type

_MAX_PRECISION = 38
_INTEGERS = {8: "int", 16: "int", 32: "int", 64: "bigint"}
# The widest unsigned number is wider than any whole number of Spark's, and Iceberg has none below 32 bits.
_UNSIGNED = {8: "int", 16: "int", 32: "bigint", 64: "decimal(20,0)"}
_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "void": pa.null(),
}


def from_arrow_type(kind: pa.DataType, column: str) -> Type:
    """The type that a column of Arrow data has in Spark; refused where no column of a table can hold its values."""
    if isinstance(kind, pa.BaseExtensionType):
        return "string" if kind.extension_name == "arrow.uuid" else from_arrow_type(kind.storage_type, column)
    if at.is_dictionary(kind) or at.is_run_end_encoded(kind):
        return from_arrow_type(kind.value_type, column)
    if is_list(kind):
        return ("array", from_arrow_type(kind.value_type, f"{column}.element"))
    if at.is_map(kind):
        return (
            "map",
            from_arrow_type(kind.key_type, f"{column}.key"),
            from_arrow_type(kind.item_type, f"{column}.value"),
        )
    if at.is_struct(kind):
        return ("struct", tuple((f.name, from_arrow_type(f.type, f"{column}.{f.name}")) for f in kind))
    converted = _convert_number(kind) or _convert_other(kind)
    if converted is None:
        raise _build_unsupported_error(kind, column)
    return converted


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, in whichever form."""
    views = at.is_list_view(kind) or at.is_large_list_view(kind)
    return bool(at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind) or views)


def _convert_number(kind: pa.DataType) -> Type | None:
    if at.is_boolean(kind):
        return "boolean"
    if at.is_signed_integer(kind):
        return _INTEGERS[kind.bit_width]
    if at.is_unsigned_integer(kind):
        return _UNSIGNED[kind.bit_width]
    if at.is_float16(kind) or at.is_float32(kind):
        return "float"
    if at.is_float64(kind):
        return "double"
    if at.is_decimal(kind) and kind.scale <= _MAX_PRECISION:
        # A negative scale means zeros at the end. Whether values have more digits than Spark's is seen when they come.
        precision = kind.precision - min(0, kind.scale)
        return f"decimal({min(_MAX_PRECISION, precision)},{max(0, kind.scale)})"
    return None


def _convert_other(kind: pa.DataType) -> Type | None:
    if at.is_null(kind):
        return "void"
    if at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        return "string"
    if at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind) or at.is_binary_view(kind):
        return "binary"
    if at.is_date(kind):
        return "date"
    if at.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return None


def _build_unsupported_error(kind: pa.DataType, column: str) -> UnsupportedType:
    hint = "make it a text, or a number"
    if at.is_duration(kind) or at.is_interval(kind):
        hint = "make it a number, for instance of seconds, or a text"
    elif at.is_time(kind):
        hint = "make it a text such as '12:30:00', or a timestamp"
    return UnsupportedType(f'column "{column}" has the type {kind}, which an Iceberg table cannot hold', hint=hint)


def to_arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which values of a Spark type are written."""
    match kind:
        case ("array", element):
            return pa.large_list(to_arrow_type(element))
        case ("map", key, value):
            return pa.map_(to_arrow_type(key), to_arrow_type(value))
        case ("struct", fields):
            return pa.struct([pa.field(name, to_arrow_type(part)) for name, part in fields])
        case str() if kind.startswith("decimal("):
            precision, scale = parse_decimal(kind)
            return pa.decimal128(precision, scale)
        case _:
            return _SIMPLE[kind]
