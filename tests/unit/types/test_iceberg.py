"""Types as tables store them: what a type becomes, how Spark reads it, and what it may become later."""

from __future__ import annotations

import json

import pytest

from sqb.types import model as m
from sqb.types.iceberg import (
    NotStorable,
    can_promote,
    can_store,
    parse_iceberg_name,
    parse_storable_type,
    parse_stored_type,
    read_stored_type,
    to_iceberg_json,
    to_stored_type,
)
from sqb.types.model import DecimalType, Field, IcebergType, StructType, TimeType, Type
from sqb.types.parse import parse_type


def kind(text: str) -> Type:
    parsed = parse_type(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("tinyint", "int"),
        ("smallint", "int"),
        ("int", "int"),
        ("varchar(3)", "string"),
        ("char(3)", "string"),
        ("string collate UTF8_LCASE", "string"),
        ("array<struct<a: byte, b: map<varchar(3), short>>>", "array<struct<a: int, b: map<string, int>>>"),
        ("void", "void"),
    ],
)
def test_what_a_type_is_stored_as(declared: str, stored: str) -> None:
    assert to_stored_type(kind(declared)) == kind(stored)


def test_schemas_of_tables() -> None:
    text = "struct<a: array<long>, m: map<string, timestamp>, d: decimal(10,2) not null, t: timestamp_ntz>"
    nested = {"type": "list", "element-id": 0, "element": "long", "element-required": False}
    mapped = {
        "type": "map",
        "key-id": 0,
        "key": "string",
        "value-id": 0,
        "value": "timestamptz",
        "value-required": False,
    }
    assert to_iceberg_json(kind(text), "c") == {
        "type": "struct",
        "fields": [
            {"id": 0, "name": "a", "required": False, "type": nested},
            {"id": 0, "name": "m", "required": False, "type": mapped},
            {"id": 0, "name": "d", "required": True, "type": "decimal(10, 2)"},
            {"id": 0, "name": "t", "required": False, "type": "timestamp"},
        ],
    }


@pytest.mark.parametrize("text", ["void", "variant", "interval day", "time", "geometry(4326)"])
def test_what_no_table_holds(text: str) -> None:
    assert not can_store(kind(text)) and can_store(m.STRING)
    assert parse_storable_type(f"array<{text}>") is None and parse_storable_type("short") == m.SMALLINT
    with pytest.raises(NotStorable) as caught:
        to_iceberg_json(kind(f"map<string, struct<a: array<{text}>>>"), "c")
    assert (caught.value.kind, caught.value.path) == (kind(text), "c.value.a.element")


def test_types_of_a_state() -> None:
    text = '["struct",[["a",["list","long",true],false],["m",["map","string","timestamptz",false],true]]]'
    stored = parse_stored_type(text)
    assert stored == kind("struct<a: array<bigint>, m: map<string, timestamp>>")
    assert isinstance(stored, StructType)
    assert [f.nullable for f in stored.fields] == [True, False]
    assert parse_stored_type('"decimal(10, 2)"') == DecimalType(10, 2)
    assert parse_stored_type('"timestamp"') == m.TIMESTAMP_NTZ


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("uuid", m.STRING),
        ("fixed[16]", m.BINARY),
        ("time", TimeType(6)),
        ("variant", m.VARIANT),
        ("unknown", m.VOID),
    ],
)
def test_types_that_only_iceberg_has(name: str, read: Type) -> None:
    assert parse_iceberg_name(name) == IcebergType(name)
    assert to_iceberg_json(IcebergType(name), "c") == name
    assert read_stored_type(json.dumps(["struct", [["a", name, False]]])) == StructType((Field("a", read),))


@pytest.mark.parametrize(
    ("old", "new", "possible"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", True),
        ("int", "double", False),
        ("decimal(5,2)", "decimal(7,2)", True),
        ("decimal(5,2)", "decimal(5,2)", True),
        ("decimal(7,2)", "decimal(5,2)", False),
        ("decimal(5,2)", "decimal(7,3)", False),
        ("date", "timestamp", False),
        ("string", "string", True),
    ],
)
def test_what_a_column_can_become(old: str, new: str, possible: bool) -> None:
    assert can_promote(kind(old), kind(new)) is possible
