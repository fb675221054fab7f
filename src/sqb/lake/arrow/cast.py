"""Arrow data as values of the types that a table has: exactly, or refused with the column and a value."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from sqb.errors.build import RowsUnfit
from sqb.types import model as m
from sqb.types.arrow import from_arrow_type, is_list, to_file_type
from sqb.types.model import ArrayType, DecimalType, Field, MapType, StructType, Type
from sqb.types.text import build_text_parser, can_parse_text


class InexactValue(Exception):
    """A value that a type cannot hold as it is."""

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.value = value


def convert_batch(batch: pa.RecordBatch, columns: Sequence[tuple[str, str, Type]]) -> pa.RecordBatch:
    """The rows with exactly these columns: the name that each has in the rows ("" for none), its own, and its type."""
    fields, arrays = [], []
    for written, name, kind in columns:
        target = to_file_type(kind)
        fields.append(pa.field(name, target))
        arrays.append(
            _convert_column(batch.column(written), kind, name) if written else pa.nulls(batch.num_rows, target)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _convert_column(values: pa.Array, kind: Type, name: str) -> pa.Array:
    try:
        return cast_exactly(values, kind)
    except InexactValue as unfit:
        row_type = from_arrow_type(values.type, name)
        example = f"; one value is {_format_value(unfit.value)}" if unfit.value is not None else ""
        raise RowsUnfit(
            f'column "{name}" is {kind}, and its rows of type {row_type} do not fit{example}',
            hint=_build_hint(values.type, kind),
        ) from unfit


def _format_value(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _build_hint(row_type: pa.DataType, kind: Type) -> str:
    if at.is_timestamp(row_type) and row_type.unit == "ns" and m.is_moment(kind):
        return "a table holds microseconds: round the values, with pandas for instance by .dt.floor('us')"
    return "give the column another type in the loader's columns=, or change the values"


def cast_exactly(values: pa.Array, kind: Type) -> pa.Array:
    """The same values in the Arrow type of a Spark type; raises `InexactValue` where one would not be the same."""
    plain = _unwrap(values)
    target = to_file_type(kind)
    if at.is_null(plain.type):
        return pa.nulls(len(plain), target)
    match kind:
        case ArrayType(element):
            return _cast_list(plain, element)
        case MapType(key, value):
            return _cast_map(plain, key, value)
        case StructType(fields):
            return _cast_struct(plain, fields)
    return _cast_simple(plain, kind, target)


def _unwrap(values: pa.Array) -> pa.Array:
    """Values without what is only a matter of how Arrow keeps them."""
    if isinstance(values, pa.ExtensionArray):
        if values.type.extension_name == "arrow.uuid":
            texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in values.storage.to_pylist()]
            return pa.array(texts, pa.large_string())
        return _unwrap(values.storage)
    if at.is_dictionary(values.type):
        return _unwrap(values.dictionary_decode())
    if at.is_run_end_encoded(values.type):
        return _unwrap(pc.run_end_decode(values))
    return values


def _cast_list(values: pa.Array, element: Type) -> pa.Array:
    if not is_list(values.type):
        raise InexactValue(_get_first(values))
    whole = values.cast(pa.large_list(values.type.value_type)) if not at.is_large_list(values.type) else values
    items = cast_exactly(whole.flatten(), element)
    return pa.LargeListArray.from_arrays(_build_offsets(whole, pa.int64()), items, mask=_find_nulls(whole))


def _cast_map(values: pa.Array, key: Type, value: Type) -> pa.Array:
    if not at.is_map(values.type):
        raise InexactValue(_get_first(values))
    pairs = pa.struct([pa.field("key", values.type.key_type), pa.field("value", values.type.item_type)])
    entries = values.cast(pa.large_list(pairs))
    keys, items = entries.flatten().flatten()
    offsets = _build_offsets(entries, pa.int32())
    maps = pa.MapArray.from_arrays(offsets, cast_exactly(keys, key), cast_exactly(items, value))
    nulls = _find_nulls(values)
    return maps if nulls is None else pc.if_else(pc.invert(nulls), maps, pa.scalar(None, maps.type))


def _build_offsets(values: pa.Array, kind: pa.DataType) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(values), 0).cast(kind)
    return pa.concat_arrays([pa.array([0], kind), pc.cumulative_sum(sizes)])


def _find_nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _cast_struct(values: pa.Array, fields: tuple[Field, ...]) -> pa.Array:
    if not at.is_struct(values.type):
        raise InexactValue(_get_first(values))
    present = {f.name.lower(): part for f, part in zip(values.type, values.flatten(), strict=True)}
    parts = [
        cast_exactly(present[f.name.lower()], f.type)
        if f.name.lower() in present
        else pa.nulls(len(values), to_file_type(f.type))
        for f in fields
    ]
    if not parts:
        raise InexactValue
    return pa.StructArray.from_arrays(parts, names=[f.name for f in fields], mask=_find_nulls(values))


def _cast_simple(values: pa.Array, kind: Type, target: pa.DataType) -> pa.Array:
    row_type = values.type
    if row_type == target:
        return values
    if at.is_nested(row_type):
        raise InexactValue(_get_first(values))
    if kind == m.STRING:
        return _cast_to_text(values, target)
    if _is_text(row_type):
        return _parse_texts(values, kind, target)
    number = at.is_integer(row_type) or at.is_floating(row_type) or at.is_decimal(row_type)
    if m.is_integer(kind) and number:
        return _cast_to_integer(values, target)
    if m.is_fraction(kind) and number:
        return _cast_to_float(values, target)
    if isinstance(kind, DecimalType) and number:
        return _cast_to_decimal(values, target)
    if m.is_moment(kind) and (at.is_timestamp(row_type) or at.is_date(row_type)):
        return _cast_to_timestamp(values, kind, target)
    if kind == m.DATE and (at.is_date(row_type) or at.is_timestamp(row_type)):
        return _check_round_trip(values, values.cast(target), lambda back: back.cast(row_type))
    if kind == m.BINARY and _is_binary(row_type):
        return values.cast(target)
    raise InexactValue(_get_first(values))


def _is_text(kind: pa.DataType) -> bool:
    return bool(at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    wide = at.is_large_binary(kind) or at.is_binary_view(kind)
    return bool(at.is_binary(kind) or at.is_fixed_size_binary(kind) or wide)


def _cast_to_text(values: pa.Array, target: pa.DataType) -> pa.Array:
    row_type = values.type
    if (
        _is_text(row_type)
        or at.is_integer(row_type)
        or at.is_boolean(row_type)
        or at.is_decimal(row_type)
        or at.is_date(row_type)
    ):
        return values.cast(target)
    raise InexactValue(_get_first(values))


def _parse_texts(values: pa.Array, kind: Type, target: pa.DataType) -> pa.Array:
    """Texts read as those of a seed are: where one is given several times it is read once."""
    if not can_parse_text(kind):
        raise InexactValue(_get_first(values))
    parse = build_text_parser(kind)
    encoded = values.cast(pa.large_string()).dictionary_encode()
    read = []
    for text in encoded.dictionary.to_pylist():
        try:
            read.append(parse(text))
        except ValueError:
            raise InexactValue(text) from None
    return pa.array(read, target).take(encoded.indices)


def _cast_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    plain = _cast(values, pa.decimal128(38, 0)) if at.is_decimal(values.type) else values
    return _cast(plain, target)


def _cast_to_float(values: pa.Array, target: pa.DataType) -> pa.Array:
    if at.is_integer(values.type):
        return _cast(values, target)
    converted = values.cast(target)
    if at.is_decimal(values.type):
        return _check_round_trip(values, converted, lambda back: back.cast(values.type))
    # Who asks for floats of numbers that Python has with twice the digits asks for rounding, but not for infinity.
    lost = pc.and_(pc.is_inf(converted), pc.is_finite(values))
    if pc.any(lost, min_count=0).as_py():
        raise InexactValue(_get_first(values.filter(lost)))
    return converted


def _cast_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    if at.is_integer(values.type):
        return _cast(_cast(values, pa.decimal128(20, 0)), target)
    if at.is_floating(values.type):
        # The float 0.1 is not exactly 0.1: a decimal that reads back as the same float is the right one.
        return _check_round_trip(values, _cast(values, target), lambda back: back.cast(values.type))
    return _cast(values, target)


def _cast_to_timestamp(values: pa.Array, kind: Type, target: pa.DataType) -> pa.Array:
    row_type = values.type
    if at.is_date(row_type):
        return _cast(values, pa.timestamp("us")).cast(pa.int64()).cast(target)
    if row_type.tz is not None and kind == m.TIMESTAMP_NTZ:
        raise InexactValue(_get_first(values))
    # A time without a zone means UTC, which is what sessions are set to.
    return _cast(values, pa.timestamp("us", row_type.tz)).cast(pa.int64()).cast(target)


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        raise InexactValue(_find_culprit(values, lambda one: one.cast(target))) from None


def _check_round_trip(values: pa.Array, converted: pa.Array, back: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What was made of values, if they can be made of it again."""
    again = back(converted)
    same = pc.equal(again, values)
    if at.is_floating(values.type):
        same = pc.or_(same, pc.and_(pc.is_nan(again), pc.is_nan(values)))
    if not pc.all(same, min_count=0).as_py():
        raise InexactValue(_get_first(values.filter(pc.invert(same))))
    return converted


def _find_culprit(values: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> object:
    """A value that fails, found by halves."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        try:
            attempt(half)
            values = values.slice(len(half))
        except pa.ArrowInvalid:
            values = half
    return _get_first(values)


def _get_first(values: pa.Array) -> Any:
    present = values.drop_null()
    if not len(present):
        return None
    try:
        value = present[0].as_py()
        # With pandas in the environment, nanoseconds come as its own times.
        if type(value).__module__.split(".")[0] != "pandas":
            return value
        raise ValueError
    except (ValueError, ArithmeticError):
        # Nanoseconds and years that Python's own times do not have.
        return pc.cast(present.slice(0, 1), pa.string())[0].as_py()
