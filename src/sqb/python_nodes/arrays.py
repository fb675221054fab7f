"""Python's values as columns of Arrow, made buffer by buffer.

Arrow's own way from Python's values loads pandas, where it is installed, to look for pandas' values among them: that
takes longer than most loads do. Here the type is known, and each value is one of it, as `kinds.plain` gives them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from sqb.project.column_types import Type
from sqb.python_nodes.kinds import VOID, arrow_type

_NUMBERS = {"tinyint": "b", "smallint": "h", "int": "i", "bigint": "q", "float": "f", "double": "d"}
_DAY_ZERO = date(1970, 1, 1)
_MOMENT_ZERO = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
# Wide enough that no digit is rounded away.
_CONTEXT = Context(prec=100)


def array_of(kind: Type, values: Sequence[Any]) -> pa.Array:
    """Values of one type, None among them, as a column; raises ValueError or OverflowError for one that is not."""
    if kind == VOID:
        return pa.nulls(len(values))
    buffers, children = _parts(kind, values)
    valid = None if None not in values else _bits([value is not None for value in values])
    return pa.Array.from_buffers(arrow_type(kind), len(values), [valid, *buffers], children=children)


def _parts(kind: Type, values: Sequence[Any]) -> tuple[list[pa.Buffer], list[pa.Array]]:
    match kind:
        case ("array", element):
            lists = [value or () for value in values]
            return [_offsets(lists)], [array_of(element, list(chain.from_iterable(lists)))]
        case ("map", key, item):
            pairs = list(chain.from_iterable(value or () for value in values))
            keys, items = [k for k, _ in pairs], [v for _, v in pairs]
            fields = (("key", key), ("value", item))
            inside = pa.StructArray.from_arrays([array_of(key, keys), array_of(item, items)], fields=_entry(fields))
            return [_offsets([value or () for value in values])], [inside]
        case ("struct", fields):
            rows = [value or {} for value in values]
            return [], [array_of(part, [row.get(name) for row in rows]) for name, part in fields]
        case "string" | "binary":
            texts = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
            return [_offsets(texts), pa.py_buffer(b"".join(texts))], []
        case _:
            return [_fixed(kind, values)], []


def _entry(fields: Sequence[tuple[str, Type]]) -> list[pa.Field]:
    return [pa.field(name, arrow_type(part), nullable=name != "key") for name, part in fields]


def _fixed(kind: str, values: Sequence[Any]) -> pa.Buffer:
    """The values of a type whose values all take the same room."""
    match kind:
        case "boolean":
            return _bits([bool(value) for value in values])
        case "float" | "double":
            return pa.py_buffer(array(_NUMBERS[kind], [_float(value) for value in values]))
        case "date":
            return pa.py_buffer(array("i", [0 if v is None else (v - _DAY_ZERO).days for v in values]))
        case "timestamp" | "timestamp_ntz":
            return pa.py_buffer(array("q", [0 if v is None else _microseconds(v) for v in values]))
        case _ if kind in _NUMBERS:
            return pa.py_buffer(array(_NUMBERS[kind], [0 if value is None else value for value in values]))
        case _:
            scale = int(kind.removesuffix(")").partition(",")[2])
            return pa.py_buffer(b"".join(_unscaled(value, scale) for value in values))


def _float(value: Any) -> float:
    if value is None:
        return 0.0
    found = float(value)
    if isinstance(value, int) and int(found) != value:
        raise ValueError("it has too many digits")
    return found


def _microseconds(value: datetime) -> int:
    offset = value.utcoffset()
    return (value.replace(tzinfo=None) - _MOMENT_ZERO - (offset or timedelta())) // _MICROSECOND


def _unscaled(value: Decimal | int | None, scale: int) -> bytes:
    whole = 0 if value is None else int(Decimal(value).scaleb(scale, _CONTEXT))
    return whole.to_bytes(16, "little", signed=True)


def _offsets(parts: Sequence[Sequence[Any]]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(map(len, parts), initial=0)))


def _bits(values: Sequence[bool]) -> pa.Buffer:
    if not values:
        return pa.py_buffer(b"")
    # The first value is the lowest bit of the first byte.
    number = int("".join("1" if value else "0" for value in reversed(values)), 2)
    return pa.py_buffer(number.to_bytes((len(values) + 7) // 8, "little"))
