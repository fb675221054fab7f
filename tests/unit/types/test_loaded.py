"""Types of rows from outside: one for several, and what a table's column becomes to take them."""

from __future__ import annotations

import pytest

from sqb.types.loaded import can_hold, join_types, to_loaded_type, widen_column
from sqb.types.model import Type
from sqb.types.parse import parse_type


def kind(text: str) -> Type:
    parsed = parse_type(text)
    assert parsed is not None
    return parsed


UNITED = [
    ("int", "bigint", "bigint"),
    ("void", "date", "date"),
    ("bigint", "double", "double"),
    ("float", "int", "double"),
    ("decimal(3,2)", "decimal(4,1)", "decimal(5,2)"),
    ("decimal(38,10)", "decimal(38,0)", "decimal(38,10)"),
    ("decimal(30,0)", "decimal(30,20)", "decimal(38,20)"),
    ("tinyint", "smallint", "smallint"),
    ("smallint", "int", "int"),
    ("decimal(3,2)", "bigint", "decimal(21,2)"),
    ("decimal(3,2)", "double", "double"),
    ("array<int>", "array<bigint>", "array<bigint>"),
    ("map<string, int>", "map<string, double>", "map<string, double>"),
    ("struct<a: int>", "struct<B: string, A: double>", "struct<a: double, B: string>"),
    ("array<struct<a: int>>", "array<struct<A: bigint>>", "array<struct<a: bigint>>"),
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
    assert join_types(kind(one), kind(other)) == expected
    types = join_types(kind(other), kind(one))
    assert (types if both is None or "struct" not in both else expected) == expected


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
    assert widen_column(kind(table), kind(rows)) == (None if after is None else kind(after))


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


def test_a_new_column_has_a_type_that_tables_have() -> None:
    assert to_loaded_type(kind("array<struct<a: void, b: tinyint, c: varchar(3)>>")) == kind(
        "array<struct<a: string, b: int, c: string>>"
    )
