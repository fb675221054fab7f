"""Whether values can be written and described without Spark: what Python cannot hold, it cannot make statistics of."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from sqb.types.arrow import is_list

_EPOCH = datetime(1970, 1, 1)
_DAYS = ((datetime.min - _EPOCH).days, (datetime.max - _EPOCH).days)
_MICROSECONDS = tuple(days * 86_400_000_000 for days in _DAYS)


def can_describe_values(table: pa.Table) -> bool:
    """Whether Python can tell the smallest and the largest value of each column: texts are UTF-8, and days are those
    of its calendar."""
    return all(_can_describe(chunk) for column in table.columns for chunk in column.chunks)


def _can_describe(values: pa.Array) -> bool:
    kind = values.type
    if at.is_struct(kind):
        return all(map(_can_describe, values.flatten()))
    if is_list(kind):
        return _can_describe(values.flatten())
    if at.is_string(kind) or at.is_large_string(kind):
        return _is_utf8(values)
    if at.is_date32(kind):
        return _is_within(values.cast(pa.int32()), *_DAYS)
    if at.is_timestamp(kind):
        return kind.unit == "us" and _is_within(values.cast(pa.int64()), *_MICROSECONDS)
    simple = (at.is_boolean, at.is_signed_integer, at.is_floating, at.is_decimal, at.is_binary, at.is_large_binary)
    return any(is_kind(kind) for is_kind in simple)


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_within(numbers: pa.Array, low: int, high: int) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (low <= ends["min"] and ends["max"] <= high)
