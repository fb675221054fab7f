"""Which values Python can describe in the statistics of a file; the others are left to Spark."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqb.lake.arrow.values import can_describe_values

_DAY = datetime.date(9999, 12, 31)
_MICROSECONDS = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([], pa.string()),
        pa.array([None, 1], pa.int8()),
        pa.array([True, None]),
        pa.array([float("nan"), -0.0]),
        pa.array([Decimal("1.50")], pa.decimal128(38, 2)),
        pa.array(["", "å", None]),
        pa.array([b"\xff"]),
        pa.array([_DAY, datetime.date(1, 1, 1)]),
        pa.array([0, None], _MICROSECONDS),
        pa.array([[{"a": "x"}], [], None], pa.list_(pa.struct([("a", pa.string())]))),
    ],
)
def test_what_python_can_hold(values: pa.Array) -> None:
    assert can_describe_values(pa.table({"plain": pa.array([1] * len(values), pa.int64()), "c": values}))


def _decode(content: bytes) -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, len(content)], pa.int32()).buffers()[1], pa.py_buffer(content)]
    )


@pytest.mark.parametrize(
    "values",
    [
        _decode(b"\xff"),
        pa.StructArray.from_arrays([_decode(b"a\xc3")], ["a"]),
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), _decode(b"\xff")),
        pa.array([2932897], pa.int32()).cast(pa.date32()),
        pa.array([-719163], pa.int32()).cast(pa.date32()),
        pa.array([2**62]).cast(_MICROSECONDS),
        pa.array([-(2**62)]).cast(pa.timestamp("us")),
        pa.array([0], pa.timestamp("ns")),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([0], pa.time64("us")),
    ],
)
def test_what_is_left_to_spark(values: pa.Array) -> None:
    assert not can_describe_values(pa.table({"plain": [1], "c": values}))


def test_every_piece_of_a_column_counts() -> None:
    pieces: list[Any] = [pa.array(["a"]), _decode(b"\xff")]
    assert not can_describe_values(pa.table({"c": pa.chunked_array(pieces)}))
