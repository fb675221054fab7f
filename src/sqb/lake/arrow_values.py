"""Arrow data as values of the types that a table has: exactly, or refused with the column and a value."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from sqb.errors import RowsUnfit
from sqb.lake.arrow_types import arrow_type, is_list, type_of
from sqb.lake.row_types import shown_type
from sqb.project.column_types import Type
from sqb.project.seed_types import parse

_WHOLE = ("int", "bigint")
_FRACTIONS = ("float", "double")
_READABLE = (*_WHOLE, *_FRACTIONS, "boolean", "date", "timestamp", "timestamp_ntz")


class Unfit(Exception):
    """A value that a type cannot hold as it is."""

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.value = value


def converted(batch: pa.RecordBatch, columns: Sequence[tuple[str, str, Type]]) -> pa.RecordBatch:
    """The rows with exactly these columns: the name that each has in the rows ("" for none), its own, and its type."""
    fields, arrays = [], []
    for written, name, kind in columns:
        target = arrow_type(kind)
        fields.append(pa.field(name, target))
        arrays.append(_column(batch.column(written), kind, name) if written else pa.nulls(batch.num_rows, target))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _column(values: pa.Array, kind: Type, name: str) -> pa.Array:
    try:
        return fitted(values, kind)
    except Unfit as unfit:
        found = shown_type(type_of(values.type, name))
        shown = f"; one value is {_shown(unfit.value)}" if unfit.value is not None else ""
        raise RowsUnfit(
            f'column "{name}" is {shown_type(kind)}, and its rows of type {found} do not fit{shown}',
            hint=_hint(values.type, kind),
        ) from unfit


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _hint(found: pa.DataType, kind: Type) -> str:
    if at.is_timestamp(found) and found.unit == "ns" and kind in ("timestamp", "timestamp_ntz"):
        return "a table holds microseconds: round the values, with pandas for instance by .dt.floor('us')"
    return "give the column another type in the loader's columns=, or change the values"


def fitted(values: pa.Array, kind: Type) -> pa.Array:
    """The same values in the Arrow type of a Spark type; raises `Unfit` where one would not be the same."""
    plain = _unwrapped(values)
    target = arrow_type(kind)
    if at.is_null(plain.type):
        return pa.nulls(len(plain), target)
    match kind:
        case ("array", element):
            return _list(plain, element)
        case ("map", key, value):
            return _map(plain, key, value)
        case ("struct", fields):
            return _struct(plain, fields)
    return _simple(plain, kind, target)


def _unwrapped(values: pa.Array) -> pa.Array:
    """Values without what is only a matter of how Arrow keeps them."""
    if isinstance(values, pa.ExtensionArray):
        if values.type.extension_name == "arrow.uuid":
            texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in values.storage.to_pylist()]
            return pa.array(texts, pa.large_string())
        return _unwrapped(values.storage)
    if at.is_dictionary(values.type):
        return _unwrapped(values.dictionary_decode())
    if at.is_run_end_encoded(values.type):
        return _unwrapped(pc.run_end_decode(values))
    return values


def _list(values: pa.Array, element: Type) -> pa.Array:
    if not is_list(values.type):
        raise Unfit(_first(values))
    whole = values.cast(pa.large_list(values.type.value_type)) if not at.is_large_list(values.type) else values
    items = fitted(whole.flatten(), element)
    return pa.LargeListArray.from_arrays(_offsets(whole, pa.int64()), items, mask=_nulls(whole))


def _map(values: pa.Array, key: Type, value: Type) -> pa.Array:
    if not at.is_map(values.type):
        raise Unfit(_first(values))
    pairs = pa.struct([pa.field("key", values.type.key_type), pa.field("value", values.type.item_type)])
    entries = values.cast(pa.large_list(pairs))
    keys, items = entries.flatten().flatten()
    offsets = _offsets(entries, pa.int32())
    made = pa.MapArray.from_arrays(offsets, fitted(keys, key), fitted(items, value))
    nulls = _nulls(values)
    return made if nulls is None else pc.if_else(pc.invert(nulls), made, pa.scalar(None, made.type))


def _offsets(values: pa.Array, kind: pa.DataType) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(values), 0).cast(kind)
    return pa.concat_arrays([pa.array([0], kind), pc.cumulative_sum(sizes)])


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _struct(values: pa.Array, fields: tuple[tuple[str, Type], ...]) -> pa.Array:
    if not at.is_struct(values.type):
        raise Unfit(_first(values))
    present = {f.name.lower(): part for f, part in zip(values.type, values.flatten(), strict=True)}
    parts = [
        fitted(present[name.lower()], kind) if name.lower() in present else pa.nulls(len(values), arrow_type(kind))
        for name, kind in fields
    ]
    if not parts:
        raise Unfit
    return pa.StructArray.from_arrays(parts, names=[name for name, _ in fields], mask=_nulls(values))


def _simple(values: pa.Array, kind: Type, target: pa.DataType) -> pa.Array:
    found = values.type
    if found == target:
        return values
    if at.is_nested(found):
        raise Unfit(_first(values))
    if kind == "string":
        return _as_text(values, target)
    if _is_text(found):
        return _from_text(values, kind, target)
    number = at.is_integer(found) or at.is_floating(found) or at.is_decimal(found)
    if kind in _WHOLE and number:
        return _whole(values, target)
    if kind in _FRACTIONS and number:
        return _fraction(values, target)
    if kind.startswith("decimal(") and number:
        return _decimal(values, target)
    if kind in ("timestamp", "timestamp_ntz") and (at.is_timestamp(found) or at.is_date(found)):
        return _moment(values, kind, target)
    if kind == "date" and (at.is_date(found) or at.is_timestamp(found)):
        return _checked(values, values.cast(target), lambda back: back.cast(found))
    if kind == "binary" and _is_binary(found):
        return values.cast(target)
    raise Unfit(_first(values))


def _is_text(kind: pa.DataType) -> bool:
    return bool(at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    wide = at.is_large_binary(kind) or at.is_binary_view(kind)
    return bool(at.is_binary(kind) or at.is_fixed_size_binary(kind) or wide)


def _as_text(values: pa.Array, target: pa.DataType) -> pa.Array:
    found = values.type
    if _is_text(found) or at.is_integer(found) or at.is_boolean(found) or at.is_decimal(found) or at.is_date(found):
        return values.cast(target)
    raise Unfit(_first(values))


def _from_text(values: pa.Array, kind: str, target: pa.DataType) -> pa.Array:
    """Texts read as those of a seed are: where one is given several times it is read once."""
    if kind not in _READABLE and not kind.startswith("decimal("):
        raise Unfit(_first(values))
    encoded = values.cast(pa.large_string()).dictionary_encode()
    read = []
    for text in encoded.dictionary.to_pylist():
        try:
            read.append(parse(kind, text))
        except ValueError:
            raise Unfit(text) from None
    return pa.array(read, target).take(encoded.indices)


def _whole(values: pa.Array, target: pa.DataType) -> pa.Array:
    plain = _cast(values, pa.decimal128(38, 0)) if at.is_decimal(values.type) else values
    return _cast(plain, target)


def _fraction(values: pa.Array, target: pa.DataType) -> pa.Array:
    if at.is_integer(values.type):
        return _cast(values, target)
    made = values.cast(target)
    if at.is_decimal(values.type):
        return _checked(values, made, lambda back: back.cast(values.type))
    # Who asks for floats of numbers that Python has with twice the digits asks for rounding, but not for infinity.
    lost = pc.and_(pc.is_inf(made), pc.is_finite(values))
    if pc.any(lost, min_count=0).as_py():
        raise Unfit(_first(values.filter(lost)))
    return made


def _decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    if at.is_integer(values.type):
        return _cast(_cast(values, pa.decimal128(20, 0)), target)
    if at.is_floating(values.type):
        # 0.1 is no decimal number, but what everybody means by it is: what reads back as the same number is right.
        return _checked(values, _cast(values, target), lambda back: back.cast(values.type))
    return _cast(values, target)


def _moment(values: pa.Array, kind: str, target: pa.DataType) -> pa.Array:
    found = values.type
    if at.is_date(found):
        return _cast(values, pa.timestamp("us")).cast(pa.int64()).cast(target)
    if found.tz is not None and kind == "timestamp_ntz":
        raise Unfit(_first(values))
    # A time without a zone means UTC, which is what sessions are set to.
    return _cast(values, pa.timestamp("us", found.tz)).cast(pa.int64()).cast(target)


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        raise Unfit(_culprit(values, lambda one: one.cast(target))) from None


def _checked(values: pa.Array, made: pa.Array, back: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What was made of values, if they can be made of it again."""
    again = back(made)
    same = pc.equal(again, values)
    if at.is_floating(values.type):
        same = pc.or_(same, pc.and_(pc.is_nan(again), pc.is_nan(values)))
    if not pc.all(same, min_count=0).as_py():
        raise Unfit(_first(values.filter(pc.invert(same))))
    return made


def _culprit(values: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> object:
    """A value that fails, found by halves."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        try:
            attempt(half)
            values = values.slice(len(half))
        except pa.ArrowInvalid:
            values = half
    return _first(values)


def _first(values: pa.Array) -> Any:
    there = values.drop_null()
    if not len(there):
        return None
    try:
        found = there[0].as_py()
        # With pandas in the environment, nanoseconds come as its own times.
        if type(found).__module__.split(".")[0] != "pandas":
            return found
        raise ValueError
    except (ValueError, ArithmeticError):
        # Nanoseconds and years that Python's own times do not have.
        return pc.cast(there.slice(0, 1), pa.string())[0].as_py()
