"""Types as people and Spark write them."""

from __future__ import annotations

import pytest

from sqb.types import model as m
from sqb.types.format import format_sql_type
from sqb.types.model import (
    ArrayType,
    CharType,
    CollatedType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    OpaqueType,
    StructType,
    TimeType,
    Type,
    VarcharType,
)
from sqb.types.parse import BadType, TypeReader, parse_declared_type, parse_type

WRITTEN: list[tuple[str, Type]] = [
    ("BIGINT", m.BIGINT),
    (" long ", m.BIGINT),
    ("byte", m.TINYINT),
    ("SHORT", m.SMALLINT),
    ("real", m.FLOAT),
    ("bool", m.BOOLEAN),
    ("text", m.STRING),
    ("varchar", m.STRING),
    ("void", m.VOID),
    ("variant", m.VARIANT),
    ("timestamp_ltz", m.TIMESTAMP),
    ("timestamp without time zone", m.TIMESTAMP_NTZ),
    ("decimal( 10 , 4 )", DecimalType(10, 4)),
    ("numeric", DecimalType(10, 0)),
    ("dec(7)", DecimalType(7, 0)),
    ("char(3)", CharType(3)),
    ("character( 3 )", CharType(3)),
    ("varchar(10)", VarcharType(10)),
    ("string collate unicode_ci", CollatedType("UNICODE_CI")),
    ("time", TimeType(6)),
    ("time(0) without time zone", TimeType(0)),
    ("interval", m.INTERVAL),
    ("INTERVAL YEAR TO MONTH", IntervalType("year", "month")),
    ("interval hour", IntervalType("hour", "hour")),
    ("geometry(4326)", OpaqueType("geometry(4326)")),
    ("array<int>", ArrayType(m.INT)),
    ("map<string, array<date>>", MapType(m.STRING, ArrayType(m.DATE))),
    ("struct<>", StructType(())),
    ("struct<a int>", StructType((Field("a", m.INT),))),
    (
        "struct<a: int, `b c`: decimal(3,1), `d``e`: string>",
        StructType((Field("a", m.INT), Field("b c", DecimalType(3, 1)), Field("d`e", m.STRING))),
    ),
    ("STRUCT<1a: INT NOT NULL COMMENT 'it\\'s > 1', b STRING>", StructType((Field("1a", m.INT), Field("b", m.STRING)))),
]


@pytest.mark.parametrize(("text", "kind"), WRITTEN, ids=[text for text, _ in WRITTEN])
def test_types_are_read_as_people_write_them(text: str, kind: Type) -> None:
    assert parse_type(text) == kind
    assert parse_type(format_sql_type(kind)) == kind
    assert hash(kind) == hash(parse_type(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "strng",
        "int int",
        "array<int",
        "array<int>>",
        "array<>",
        "map<int>",
        "map<int, int, int>",
        "struct<2: int>",
        "struct<a: int,>",
        "decimal(40,1)",
        "decimal(3,5)",
        "decimal(3,-1)",
        "decimal(3,1,1)",
        "int(3)",
        "time(7)",
        "interval month to year",
        "interval day to day",
        "interval day to month",
        "null",
    ],
)
def test_what_is_not_a_type(text: str) -> None:
    assert parse_type(text) is None


def test_what_is_wrong_has_a_place() -> None:
    text = "id array<bigit>"
    with pytest.raises(BadType, match="there is no type `bigit`") as caught:
        TypeReader(text, 3, len(text)).read_type()
    assert (caught.value.offset, caught.value.hint) == (9, "did you mean 'bigint'?")


def test_whether_parts_may_be_null_is_kept_and_does_not_matter() -> None:
    kind = parse_type("struct<a: int not null, b: int>")
    assert isinstance(kind, StructType)
    assert [f.nullable for f in kind.fields] == [False, True]
    assert kind == parse_type("struct<a: int, b: int>")


def test_types_that_columns_can_be_given() -> None:
    assert parse_declared_type("array<varchar(3)>") == ArrayType(m.STRING)
    assert parse_declared_type("smallint") == m.SMALLINT
    assert parse_declared_type("array<void>") is None
    assert parse_declared_type("string collate UTF8_LCASE") is None


@pytest.mark.parametrize(
    ("kind", "text", "sql"),
    [
        (DecimalType(10, 2), "decimal(10,2)", "DECIMAL(10,2)"),
        (IntervalType("day", "second"), "interval day to second", "INTERVAL DAY TO SECOND"),
        (IntervalType("day", "day"), "interval day", "INTERVAL DAY"),
        (CollatedType("UTF8_LCASE"), "string collate UTF8_LCASE", "STRING COLLATE UTF8_LCASE"),
        (MapType(m.STRING, ArrayType(m.INT)), "map<string,array<int>>", "MAP<STRING, ARRAY<INT>>"),
        (
            StructType((Field("a b", m.INT), Field("c", m.DATE))),
            "struct<a b:int,c:date>",
            "STRUCT<`a b`: INT, c: DATE>",
        ),
        (m.UNKNOWN, "unknown", "UNKNOWN"),
    ],
)
def test_types_as_text(kind: Type, text: str, sql: str) -> None:
    assert str(kind) == text
    assert format_sql_type(kind).replace("`c`", "c") == sql
