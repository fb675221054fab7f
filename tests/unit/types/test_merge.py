"""Types of rows from outside: one for several, and what a table's column becomes to take them."""

from __future__ import annotations

import pytest

from sqb.types.merge import can_hold, find_common_type, has_empty_struct, parse_stored_type, to_stored_type, widen_type
from sqb.types.values import Type, parse_type


def kind(text: str) -> Type:
    return "void" if text == "void" else parse_type(text)


UNITED = [
    ("int", "bigint", "bigint"),
    ("void", "date", "date"),
    ("bigint", "double", "double"),
    ("float", "int", "double"),
    ("decimal(3,2)", "decimal(4,1)", "decimal(5,2)"),
    ("decimal(38,10)", "decimal(38,0)", "decimal(38,10)"),
    ("decimal(3,2)", "bigint", "decimal(21,2)"),
    ("decimal(3,2)", "double", "double"),
    ("array<int>", "array<bigint>", "array<bigint>"),
    ("map<string, int>", "map<string, double>", "map<string, double>"),
    ("struct<a: int>", "struct<B: string, A: double>", "struct<a: double, B: string>"),
    ("string", "int", None),
    ("boolean", "int", None),
    ("date", "timestamp", None),
    ("timestamp", "timestamp_ntz", None),
    ("array<int>", "int", None),
    ("struct<a: int>", "struct<a: string>", None),
]


@pytest.mark.parametrize(("one", "other", "both"), UNITED)
def test_one_type_for_several(one: str, other: str, both: str | None) -> None:
    expected = None if both is None else kind(both)
    assert find_common_type(kind(one), kind(other)) == expected
    found = find_common_type(kind(other), kind(one))
    assert (found if both is None or "struct" not in both else expected) == expected


GROWN = [
    # A column becomes wider where no file has to be rewritten.
    ("int", "bigint", "bigint"),
    ("float", "double", "double"),
    ("decimal(5,2)", "decimal(7,2)", "decimal(7,2)"),
    ("array<int>", "array<bigint>", "array<bigint>"),
    ("struct<a: int>", "struct<A: bigint, b: date>", "struct<a: bigint, b: date>"),
    ("map<string, int>", "map<string, bigint>", "map<string, bigint>"),
    # It stays where the values may be the same in its type.
    ("bigint", "int", "bigint"),
    ("bigint", "double", "bigint"),
    ("double", "bigint", "double"),
    ("decimal(5,2)", "decimal(5,3)", "decimal(5,2)"),
    ("decimal(5,2)", "double", "decimal(5,2)"),
    ("string", "void", "string"),
    ("array<string>", "array<void>", "array<string>"),
    ("struct<a: int, b: int>", "struct<b: int>", "struct<a: int, b: int>"),
    # It cannot become another.
    ("bigint", "string", None),
    ("string", "bigint", None),
    ("timestamp", "timestamp_ntz", None),
    ("boolean", "int", None),
    ("array<int>", "array<string>", None),
    ("map<int, int>", "map<bigint, int>", None),
    ("int", "array<int>", None),
]


@pytest.mark.parametrize(("table", "rows", "after"), GROWN)
def test_what_a_column_becomes(table: str, rows: str, after: str | None) -> None:
    coming: Type = ("array", "void") if rows == "array<void>" else kind(rows)
    assert widen_type(kind(table), coming) == (None if after is None else kind(after))


@pytest.mark.parametrize(
    ("table", "rows", "all_of_them"),
    [
        ("bigint", "int", True),
        ("int", "bigint", False),
        ("double", "bigint", False),
        ("double", "float", True),
        ("decimal(7,2)", "decimal(5,2)", True),
        ("decimal(7,3)", "decimal(5,2)", False),
        ("string", "void", True),
        ("struct<a: bigint, b: int>", "struct<A: int>", True),
        ("struct<a: bigint>", "struct<a: int, b: int>", False),
        ("map<bigint, double>", "map<int, float>", True),
    ],
)
def test_what_a_column_holds(table: str, rows: str, all_of_them: bool) -> None:
    assert can_hold(kind(table), kind(rows)) == all_of_them


def test_types_that_stand() -> None:
    assert parse_stored_type(
        '["struct",[["a",["list","long",true],false],["m",["map","string","timestamptz",false],true]]]'
    ) == (
        "struct",
        (("a", ("array", "bigint")), ("m", ("map", "string", "timestamp"))),
    )
    assert parse_stored_type('"decimal(10, 2)"') == "decimal(10,2)" and parse_stored_type('"uuid"') == (
        "iceberg",
        "uuid",
    )
    assert to_stored_type(("array", ("struct", (("a", "void"), ("b", "tinyint"))))) == (
        "array",
        ("struct", (("a", "string"), ("b", "int"))),
    )
    assert has_empty_struct(("map", "string", ("array", ("struct", ())))) and not has_empty_struct(
        kind("struct<a: int>")
    )
