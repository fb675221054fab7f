"""Python's values as columns of Arrow, made buffer by buffer.

Arrow's own way from Python's values loads pandas, where it is installed, to look for pandas' values among them: that
takes longer than most loads do. Here the type is known, and each value is one of it, as `unwrap_value` gives them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from sqb.types import model as m
from sqb.types.arrow import to_arrow_type
from sqb.types.model import ArrayType, DecimalType, MapType, SimpleType, StructType, Type

_NUMBERS: Mapping[Type, str] = {m.TINYINT: "b", m.SMALLINT: "h", m.INT: "i", m.BIGINT: "q", m.FLOAT: "f", m.DOUBLE: "d"}
_DAY_ZERO = date(1970, 1, 1)
_MOMENT_ZERO = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
# Wide enough that no digit is rounded away.
_CONTEXT = Context(prec=100)


def build_array(kind: Type, values: Sequence[Any]) -> pa.Array:
    """Values of one type, None among them, as a column; raises ValueError or OverflowError for one that is not."""
    if kind == m.VOID:
        return pa.nulls(len(values))
    buffers, children = _build_parts(kind, values)
    valid = None if None not in values else _build_bits([value is not None for value in values])
    return pa.Array.from_buffers(to_arrow_type(kind), len(values), [valid, *buffers], children=children)


def _build_parts(kind: Type, values: Sequence[Any]) -> tuple[list[pa.Buffer], list[pa.Array]]:
    match kind:
        case ArrayType(element):
            lists = [value or () for value in values]
            return [_build_offsets(lists)], [build_array(element, list(chain.from_iterable(lists)))]
        case MapType(key, item):
            pairs = list(chain.from_iterable(value or () for value in values))
            keys, items = [k for k, _ in pairs], [v for _, v in pairs]
            fields = [
                pa.field("key", to_arrow_type(key), nullable=False),
                pa.field("value", to_arrow_type(item)),
            ]
            inside = pa.StructArray.from_arrays([build_array(key, keys), build_array(item, items)], fields=fields)
            return [_build_offsets([value or () for value in values])], [inside]
        case StructType():
            rows = _spell_keys(kind, values)
            return [], [build_array(f.type, [row.get(f.name) for row in rows]) for f in kind.fields]
        case SimpleType("string" | "binary"):
            texts = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
            return [_build_offsets(texts), pa.py_buffer(b"".join(texts))], []
        case _:
            return [_build_fixed_width(kind, values)], []


def _spell_keys(kind: StructType, values: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Mappings with the keys as the type spells them: those that differ only in case are one field."""
    spelled = {f.name.lower(): f.name for f in kind.fields}
    names = set(spelled.values())
    return [
        value if value.keys() <= names else {spelled.get(key.lower(), key): item for key, item in value.items()}
        for value in (value or {} for value in values)
    ]


def _build_fixed_width(kind: Type, values: Sequence[Any]) -> pa.Buffer:
    """The values of a type whose values all take the same room."""
    match kind:
        case m.BOOLEAN:
            return _build_bits([bool(value) for value in values])
        case SimpleType("float" | "double"):
            return pa.py_buffer(array(_NUMBERS[kind], [_check_float(value) for value in values]))
        case m.DATE:
            return pa.py_buffer(array("i", [0 if v is None else (v - _DAY_ZERO).days for v in values]))
        case SimpleType("timestamp" | "timestamp_ntz"):
            return pa.py_buffer(array("q", [0 if v is None else _count_microseconds(v) for v in values]))
        case DecimalType():
            return pa.py_buffer(b"".join(_encode_unscaled(value, kind) for value in values))
        case _:
            return pa.py_buffer(array(_NUMBERS[kind], [0 if value is None else value for value in values]))


def _check_float(value: Any) -> float:
    if value is None:
        return 0.0
    converted = float(value)
    # The shortest text of a double is the number that people mean by it.
    if (isinstance(value, int) and int(converted) != value) or (
        isinstance(value, Decimal) and Decimal(repr(converted)) != value
    ):
        raise ValueError("it has too many digits")
    return converted


def _count_microseconds(value: datetime) -> int:
    offset = value.utcoffset()
    return (value.replace(tzinfo=None) - _MOMENT_ZERO - (offset or timedelta())) // _MICROSECOND


def _encode_unscaled(value: Decimal | int | None, kind: DecimalType) -> bytes:
    unscaled = Decimal(0 if value is None else value).scaleb(kind.scale, _CONTEXT)
    whole = int(unscaled)
    if whole != unscaled or abs(whole) >= 10**kind.precision:
        raise ValueError("it has too many digits")
    return whole.to_bytes(16, "little", signed=True)


def _build_offsets(parts: Sequence[Sequence[Any]]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(map(len, parts), initial=0)))


def _build_bits(values: Sequence[bool]) -> pa.Buffer:
    if not values:
        return pa.py_buffer(b"")
    # The first value is the lowest bit of the first byte.
    number = int("".join("1" if value else "0" for value in reversed(values)), 2)
    return pa.py_buffer(number.to_bytes((len(values) + 7) // 8, "little"))
