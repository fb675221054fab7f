"""What written values mean in a type, and how they are shown."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sqb.types.model import TIMESTAMP, Type
from sqb.types.parse import parse_type
from sqb.types.values import (
    canonicalize_collected,
    convert_cell,
    format_sql_value,
    format_value,
    infer_common_type,
    is_out_of_range,
    to_collected_type,
)


def kind_of(text: str) -> Type:
    kind = parse_type(text)
    assert kind is not None
    return kind


def test_times_leave_spark_as_text() -> None:
    kind = kind_of("struct<a: bigint, b: array<timestamp_ntz>, c: map<varchar(3), decimal(5,2)>, d: boolean>")
    collected = kind_of("struct<a: bigint, b: array<string>, c: map<string, decimal(5,2)>, d: boolean>")
    assert to_collected_type(kind) == collected


VALUES: list[tuple[str, Any, Any]] = [
    ("bigint", 9, Decimal(9)),
    ("bigint", ["float", "9.0", "9.0"], Decimal(9)),
    ("int", "12", Decimal(12)),
    ("decimal(10,2)", ["float", "9.10", "9.10"], Decimal("9.1")),
    ("double", 1, 1.0),
    ("double", ["float", "nan", ".nan"], "NaN"),
    ("double", ["float", "-inf", "-.inf"], float("-inf")),
    ("float", ["float", "0.1", "0.1"], 0.10000000149011612),
    ("string", ["int", "83", "0123"], "0123"),
    ("string", ["bool", "true", "yes"], "yes"),
    ("string", True, "true"),
    ("string", ["float", "1.10", "1.10"], "1.10"),
    ("boolean", ["bool", "true", "yes"], True),
    ("boolean", "false", False),
    ("date", ["date", "2026-01-02", "2026-01-02"], date(2026, 1, 2)),
    ("date", "2026-01-02", date(2026, 1, 2)),
    ("timestamp", "2026-01-02", datetime(2026, 1, 2)),
    ("timestamp", "2026-01-02 03:04:05.5", datetime(2026, 1, 2, 3, 4, 5, 500000)),
    ("timestamp", "2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5)),
    ("timestamp_ntz", "2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
    ("binary", "ab", b"ab"),
    ("binary", ["binary", "00ff"], b"\x00\xff"),
    ("array<bigint>", ["list", [1, None]], (Decimal(1), None)),
    ("map<int,string>", ["map", [["1", "a"]]], frozenset({(Decimal(1), "a")})),
    ("struct<a:bigint,b:string>", ["map", [["B", "x"]]], (None, "x")),
    ("struct<a:bigint,b:string>", ["list", [1, "x"]], (Decimal(1), "x")),
    ("interval day", "1", "1"),
    ("bigint", None, None),
]


@pytest.mark.parametrize(("kind", "cell", "value"), VALUES)
def test_what_was_written_as_a_value_of_its_column(kind: str, cell: Any, value: Any) -> None:
    assert convert_cell(kind_of(kind), cell) == value
    hash(convert_cell(kind_of(kind), cell))


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("bigint", "abc"),
        ("bigint", True),
        ("bigint", ["float", "nan", ".nan"]),
        ("boolean", "maybe"),
        ("date", "2026-02-30"),
        ("date", "2026-01-02 03:04:05"),
        ("timestamp_ntz", "2026-01-02T03:04:05Z"),
        ("double", "x"),
        ("string", ["list", ["x"]]),
        ("array<int>", "x"),
        ("struct<a:int>", ["map", [["b", 1]]]),
    ],
)
def test_what_cannot_be_a_value_is_refused(kind: str, cell: Any) -> None:
    with pytest.raises(ValueError):
        convert_cell(kind_of(kind), cell)


def test_times_with_a_zone_are_those_of_the_session() -> None:
    moment = convert_cell(TIMESTAMP, "2026-01-02T00:00:00Z", ZoneInfo("Europe/Berlin"))
    assert moment == datetime(2026, 1, 2, 1)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("int", Decimal(2**31), True),
        ("int", Decimal(-(2**31)), False),
        ("bigint", Decimal("9.5"), True),
        ("bigint", Decimal("9.0"), False),
        ("decimal(4,2)", Decimal("99.99"), False),
        ("decimal(4,2)", Decimal("100"), True),
        ("decimal(4,2)", Decimal("1.001"), True),
        ("array<tinyint>", (Decimal(1), Decimal(128)), True),
        ("map<int,int>", frozenset({(None, Decimal(1))}), True),
        ("struct<a:int>", (Decimal("0.5"),), True),
        ("string", None, False),
    ],
)
def test_values_that_no_row_can_hold(kind: str, value: Any, problem: bool) -> None:
    assert is_out_of_range(kind_of(kind), value) is problem


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("bigint", 9, Decimal(9)),
        ("boolean", True, True),
        ("double", float("nan"), "NaN"),
        ("date", "2026-01-02", date(2026, 1, 2)),
        ("timestamp", "2026-01-02 03:04:05.5", datetime(2026, 1, 2, 3, 4, 5, 500000)),
        ("timestamp", "+12345-01-01 00:00:00", "+12345-01-01 00:00:00"),
        ("binary", bytearray(b"ab"), b"ab"),
        ("array<array<int>>", [[1], None], ((Decimal(1),), None)),
        ("map<string,date>", {"a": "2026-01-02"}, frozenset({("a", date(2026, 1, 2))})),
        ("struct<a:int,b:string>", (1, None), (Decimal(1), None)),
        ("string", None, None),
    ],
)
def test_what_spark_gave_as_a_value(kind: str, raw: Any, value: Any) -> None:
    assert canonicalize_collected(kind_of(kind), raw) == value


@pytest.mark.parametrize(
    ("kind", "value", "shown", "sql"),
    [
        ("decimal(10,2)", Decimal(9), "9.00", "'9.00'"),
        ("decimal(10,2)", Decimal("9.005"), "9.005", "'9.005'"),
        ("bigint", Decimal("9.0"), "9", "'9'"),
        ("bigint", Decimal("9.5"), "9.5", "'9.5'"),
        ("float", 0.10000000149011612, "0.1", "'0.1'"),
        ("double", float("-inf"), "-Infinity", "'-Infinity'"),
        ("boolean", False, "false", "'false'"),
        ("string", "it's \\ x", "it's \\ x", "'it\\'s \\\\ x'"),
        ("timestamp", datetime(2026, 1, 2), "2026-01-02 00:00:00", "'2026-01-02 00:00:00'"),
        ("binary", b"\x00\xff", "0x00ff", "X'00ff'"),
        ("array<int>", (Decimal(1), None), "[1, NULL]", "array(CAST('1' AS INT), CAST(NULL AS INT))"),
        (
            "map<string,int>",
            frozenset({("a", Decimal(1))}),
            "{a: 1}",
            "map(CAST('a' AS STRING), CAST('1' AS INT))",
        ),
        ("struct<a:int>", (Decimal(1),), "{a: 1}", "named_struct('a', CAST('1' AS INT))"),
        ("string", None, "NULL", "NULL"),
    ],
)
def test_values_as_text_and_as_sql(kind: str, value: Any, shown: str, sql: str) -> None:
    assert format_value(kind_of(kind), value) == shown
    assert format_sql_value(kind_of(kind), value) == sql


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([None, None], "string"),
        ([1, None], "bigint"),
        ([1, ["float", "1.5", "1.5"]], "double"),
        (["a", 1], "string"),
        ([["date", "2026-01-02", ""], ["timestamp", "2026-01-02 00:00:00", ""]], "timestamp"),
        ([["list", [1]], ["list", [["float", "1.5", ""]]]], "array<double>"),
        ([["map", [["a", 1]]], ["map", [["b", "x"]]], None], "struct<a:bigint,b:string>"),
    ],
)
def test_the_type_of_a_column_that_nobody_declared(cells: list[Any], expected: str) -> None:
    assert infer_common_type(cells) == kind_of(expected)
