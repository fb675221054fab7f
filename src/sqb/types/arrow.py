"""Types of Arrow as types of columns, and back to those in which rows are written and handed over."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as at

from sqb.types import model as m
from sqb.types.iceberg import to_stored_type
from sqb.types.model import MAX_PRECISION, ArrayType, DecimalType, Field, MapType, StructType, Type

_SIGNED: Mapping[int, Type] = {8: m.TINYINT, 16: m.SMALLINT, 32: m.INT, 64: m.BIGINT}
# The widest unsigned number is wider than any integer of Spark's.
_UNSIGNED: Mapping[int, Type] = {8: m.SMALLINT, 16: m.INT, 32: m.BIGINT, 64: DecimalType(20, 0)}
_SIMPLE: Mapping[Type, pa.DataType] = {
    m.VOID: pa.null(),
    m.BOOLEAN: pa.bool_(),
    m.TINYINT: pa.int8(),
    m.SMALLINT: pa.int16(),
    m.INT: pa.int32(),
    m.BIGINT: pa.int64(),
    m.FLOAT: pa.float32(),
    m.DOUBLE: pa.float64(),
    m.STRING: pa.string(),
    m.BINARY: pa.binary(),
    m.DATE: pa.date32(),
    m.TIMESTAMP: pa.timestamp("us", "UTC"),
    m.TIMESTAMP_NTZ: pa.timestamp("us"),
}
# A column of a batch may hold more than two gigabytes of these.
_LARGE: Mapping[Type, pa.DataType] = {m.STRING: pa.large_string(), m.BINARY: pa.large_binary()}


class UnsupportedArrowType(ValueError):
    """A type of Arrow's whose values no column can hold, where it is, and what can be done."""

    def __init__(self, kind: pa.DataType, path: str) -> None:
        super().__init__(str(kind))
        self.kind, self.path, self.hint = kind, path, _suggest_conversion(kind)


def from_arrow_type(kind: pa.DataType, path: str = "") -> Type:
    """The type that a column of Arrow's has; raises `UnsupportedArrowType` where no column can hold its values."""
    if isinstance(kind, pa.BaseExtensionType):
        return m.STRING if kind.extension_name == "arrow.uuid" else from_arrow_type(kind.storage_type, path)
    if at.is_dictionary(kind) or at.is_run_end_encoded(kind):
        return from_arrow_type(kind.value_type, path)
    if is_list(kind):
        return ArrayType(from_arrow_type(kind.value_type, f"{path}.element"))
    if at.is_map(kind):
        return MapType(from_arrow_type(kind.key_type, f"{path}.key"), from_arrow_type(kind.item_type, f"{path}.value"))
    if at.is_struct(kind):
        return StructType(tuple(Field(f.name, from_arrow_type(f.type, f"{path}.{f.name}")) for f in kind))
    converted = _convert_number(kind) or _convert_other(kind)
    if converted is None:
        raise UnsupportedArrowType(kind, path)
    return converted


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, in whichever form."""
    views = at.is_list_view(kind) or at.is_large_list_view(kind)
    return bool(at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind) or views)


def _convert_number(kind: pa.DataType) -> Type | None:
    if at.is_boolean(kind):
        return m.BOOLEAN
    if at.is_signed_integer(kind):
        return _SIGNED[kind.bit_width]
    if at.is_unsigned_integer(kind):
        return _UNSIGNED[kind.bit_width]
    if at.is_float16(kind) or at.is_float32(kind):
        return m.FLOAT
    if at.is_float64(kind):
        return m.DOUBLE
    if at.is_decimal(kind) and kind.scale <= MAX_PRECISION:
        # A negative scale means zeros at the end. Whether values have more digits than Spark's is seen when they come.
        precision = kind.precision - min(0, kind.scale)
        return DecimalType(min(MAX_PRECISION, precision), max(0, kind.scale))
    return None


def _convert_other(kind: pa.DataType) -> Type | None:
    if at.is_null(kind):
        return m.VOID
    if at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        return m.STRING
    if at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind) or at.is_binary_view(kind):
        return m.BINARY
    if at.is_date(kind):
        return m.DATE
    if at.is_timestamp(kind):
        return m.TIMESTAMP_NTZ if kind.tz is None else m.TIMESTAMP
    return None


def _suggest_conversion(kind: pa.DataType) -> str:
    if at.is_duration(kind) or at.is_interval(kind):
        return "make it a number, for instance of seconds, or a text"
    if at.is_time(kind):
        return "make it a text such as '12:30:00', or a timestamp"
    return "make it a text, or a number"


def to_arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which values of a type are handed over."""
    return _build_arrow_type(kind, _SIMPLE, pa.list_)


def to_file_type(kind: Type) -> pa.DataType:
    """The Arrow type in which the values of a table's column are written to its files, however long they are."""
    return _build_arrow_type(to_stored_type(kind), {**_SIMPLE, **_LARGE}, pa.large_list)


def _build_arrow_type(kind: Type, simple: Mapping[Type, pa.DataType], build_list: type[pa.ListType]) -> pa.DataType:
    match kind:
        case ArrayType(element):
            return build_list(_build_arrow_type(element, simple, build_list))
        case MapType(key, value):
            return pa.map_(_build_arrow_type(key, simple, build_list), _build_arrow_type(value, simple, build_list))
        case StructType(fields):
            return pa.struct([pa.field(f.name, _build_arrow_type(f.type, simple, build_list)) for f in fields])
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case _:
            return simple[kind]
