"""Arrow data in a table's types: the same values, or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqb.errors.build import RowsUnfit
from sqb.errors.lake import UnsupportedType
from sqb.lake.arrow.cast import InexactValue, cast_exactly, convert_batch
from sqb.lake.arrow.files import convert_types
from sqb.types.arrow import to_file_type
from sqb.types.model import BIGINT, TIMESTAMP_NTZ, Type
from sqb.types.parse import parse_type

NOON = datetime(2026, 1, 1, 12)


def parse(text: str) -> Type:
    kind = parse_type(text)
    assert kind is not None
    return kind


TYPES: list[tuple[pa.DataType, str]] = [
    (pa.int8(), "int"),
    (pa.int16(), "int"),
    (pa.int32(), "int"),
    (pa.int64(), "bigint"),
    (pa.uint8(), "int"),
    (pa.uint16(), "int"),
    (pa.uint32(), "bigint"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.bool_(), "boolean"),
    (pa.decimal128(10, 2), "decimal(10,2)"),
    (pa.decimal128(5, -2), "decimal(7,0)"),
    (pa.decimal256(50, 2), "decimal(38,2)"),
    (pa.string(), "string"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.binary(), "binary"),
    (pa.binary(4), "binary"),
    (pa.date32(), "date"),
    (pa.date64(), "date"),
    (pa.timestamp("ns"), "timestamp_ntz"),
    (pa.timestamp("s", "Europe/Berlin"), "timestamp"),
    (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "bigint"),
    (pa.uuid(), "string"),
    (pa.list_(pa.int8()), "array<int>"),
    (pa.list_(pa.int64(), 2), "array<bigint>"),
    (pa.large_list(pa.struct([("a", pa.float64())])), "array<struct<a:double>>"),
    (pa.map_(pa.string(), pa.date32()), "map<string,date>"),
    (pa.null(), "void"),
]


@pytest.mark.parametrize(("arrow", "spark"), TYPES, ids=lambda kind: str(kind))
def test_types(arrow: pa.DataType, spark: str) -> None:
    assert str(convert_types([("c", arrow)])["c"]) == spark


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (pa.time64("us"), "12:30:00"),
        (pa.duration("s"), "of seconds"),
        (pa.month_day_nano_interval(), "of seconds"),
        (pa.dense_union([pa.field("a", pa.int8())]), "a text"),
        (pa.decimal256(76, 40), "a text"),
        (pa.struct([("when", pa.time32("s"))]), "12:30:00"),
    ],
)
def test_types_that_no_table_holds(kind: pa.DataType, hint: str) -> None:
    with pytest.raises(UnsupportedType, match='column "c') as caught:
        convert_types([("c", kind)])
    assert hint in str(caught.value.hint)


FITTING: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([1, None], pa.int8()), "bigint", [1, None]),
    (pa.array([1.0, None]), "bigint", [1, None]),
    (pa.array([3]), "double", [3.0]),
    (pa.array([3]), "decimal(3,2)", [Decimal("3.00")]),
    (pa.array([Decimal("1.50"), None]), "decimal(5,1)", [Decimal("1.5"), None]),
    (pa.array([Decimal("2.00")]), "int", [2]),
    (pa.array([0.1, None]), "decimal(5,2)", [Decimal("0.10"), None]),
    (pa.array([0.5]), "float", [0.5]),
    (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
    (
        pa.array(["2026-01-01T12:00:00Z", "2026-01-01 12:00:00", None]),
        "timestamp",
        [NOON.replace(tzinfo=UTC)] * 2 + [None],
    ),
    (pa.array(["1.5", " 2 "]), "double", [1.5, 2.0]),
    (pa.array([date(2026, 1, 1), None]), "timestamp_ntz", [datetime(2026, 1, 1), None]),
    (pa.array([NOON]), "timestamp", [NOON.replace(tzinfo=UTC)]),
    (pa.array([1000], pa.timestamp("ns")), "timestamp_ntz", [datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (pa.array([0], pa.timestamp("s", "Asia/Tokyo")), "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.array([datetime(2026, 1, 1)]), "date", [date(2026, 1, 1)]),
    (pa.array(["a", "b", None]).dictionary_encode(), "string", ["a", "b", None]),
    (pa.array([b"0123456789abcdef", None], pa.uuid()), "string", ["30313233-3435-3637-3839-616263646566", None]),
    (pa.array([1, None]), "string", ["1", None]),
    (pa.array([None, None]), "array<int>", [None, None]),
    (pa.array([[1], None, [], [2, None]]).slice(1), "array<double>", [None, [], [2.0, None]]),
    (
        pa.array([[("z", 0)], None, [("b", None)], []], pa.map_(pa.string(), pa.int32())).slice(1),
        "map<string, bigint>",
        [None, [("b", None)], []],
    ),
    (
        pa.array([{"A": 1}, None, {"A": 3}]).slice(1),
        "struct<a: double, b: string>",
        [None, {"a": 3.0, "b": None}],
    ),
    (pa.array([b"ab"], pa.binary(2)), "binary", [b"ab"]),
]


@pytest.mark.parametrize(("values", "kind", "expected"), FITTING, ids=lambda v: str(getattr(v, "type", v))[:40])
def test_values_that_fit(values: pa.Array, kind: str, expected: list[Any]) -> None:
    made = cast_exactly(values, parse(kind))
    assert made.type == to_file_type(parse(kind)) and made.to_pylist() == expected
    made.validate(full=True)


@pytest.mark.parametrize(
    ("values", "kind", "culprit"),
    [
        (pa.array([1, 2**40, 2]), "int", 2**40),
        (pa.array([1.0, 1.5]), "bigint", 1.5),
        (pa.array([1e300]), "float", 1e300),
        (pa.array([2**53 + 1]), "double", 2**53 + 1),
        (pa.array([0.123]), "decimal(5,2)", 0.123),
        (pa.array([Decimal("1.25"), Decimal("1.50")]), "decimal(5,1)", Decimal("1.25")),
        (pa.array([Decimal("100.0")]), "decimal(3,1)", Decimal("100.0")),
        (pa.array([Decimal("12345678901234567890.1")]), "double", Decimal("12345678901234567890.1")),
        (pa.array([1001], pa.timestamp("ns")), "timestamp_ntz", "1970-01-01 00:00:00.000001001"),
        (pa.array([NOON]), "date", NOON),
        (pa.array([0], pa.timestamp("us", "UTC")), "timestamp_ntz", datetime(1970, 1, 1, tzinfo=UTC)),
        (pa.array(["2026-13-01"]), "date", "2026-13-01"),
        (pa.array([True]), "bigint", True),
        (pa.array([1]), "boolean", 1),
        (pa.array([1]), "array<int>", 1),
        (pa.array([[1]]), "string", [1]),
        (pa.array([b"a"]), "string", b"a"),
        (pa.array([{"a": "x"}]), "struct<a: int>", "x"),
    ],
    ids=lambda v: str(getattr(v, "type", v))[:40],
)
def test_values_that_do_not_fit(values: pa.Array, kind: str, culprit: Any) -> None:
    with pytest.raises(InexactValue) as caught:
        cast_exactly(values, parse(kind))
    assert caught.value.value == culprit


def test_what_is_said_of_values_that_do_not_fit() -> None:
    rows = pa.RecordBatch.from_pydict({"At": pa.array([1001], pa.timestamp("ns"))})
    with pytest.raises(
        RowsUnfit, match='column "at" is timestamp_ntz, and its rows of type timestamp_ntz do not fit; one'
    ):
        convert_batch(rows, [("At", "at", TIMESTAMP_NTZ)])
    made = convert_batch(rows, [("", "id", BIGINT)])
    assert made.to_pylist() == [{"id": None}]
