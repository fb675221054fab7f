"""The common types that Spark does not decide; tests/spark/test_types.py asks Spark about all others."""

from __future__ import annotations

import pytest

from sqb.types import model as m
from sqb.types.cast import can_cast
from sqb.types.common import common_type
from sqb.types.model import ArrayType, Field, MapType, StructType, has_empty_struct
from sqb.types.parse import parse_type
from sqb.types.spark_json import from_json_type, to_json_type


def test_what_is_unknown_stays_unknown() -> None:
    assert (
        common_type(m.UNKNOWN, m.INT) == common_type(m.DATE, m.UNKNOWN) == common_type(m.VOID, m.UNKNOWN) == m.UNKNOWN
    )
    assert common_type(ArrayType(m.UNKNOWN), ArrayType(m.INT)) == ArrayType(m.UNKNOWN)
    assert can_cast(m.UNKNOWN, m.DATE) and can_cast(m.DATE, m.UNKNOWN)


def test_a_part_of_a_common_type_may_be_null_if_one_may() -> None:
    strict, loose = ArrayType(m.INT, contains_null=False), ArrayType(m.INT)
    for other in (loose, ArrayType(m.BIGINT)):
        both = common_type(strict, other)
        assert isinstance(both, ArrayType) and both.contains_null
    both = common_type(strict, strict)
    assert isinstance(both, ArrayType) and not both.contains_null
    fields = StructType((Field("a", m.INT, nullable=False),)), StructType((Field("A", m.INT),))
    struct = common_type(*fields)
    assert isinstance(struct, StructType) and struct.fields[0].name == "a" and struct.fields[0].nullable


JSON = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "long", "nullable": False, "metadata": {}},
        {
            "name": "b",
            "type": {"type": "array", "elementType": "timestamp_ntz", "containsNull": False},
            "nullable": True,
            "metadata": {},
        },
        {
            "name": "c",
            "type": {"type": "map", "keyType": "varchar(3)", "valueType": "decimal(5,2)", "valueContainsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}


def test_types_of_results() -> None:
    kind = from_json_type(JSON)
    assert kind == parse_type("struct<a: bigint, b: array<timestamp_ntz>, c: map<varchar(3), decimal(5,2)>>")
    assert to_json_type(kind) == JSON
    assert [to_json_type(from_json_type(name)) for name in ("byte", "short", "integer", "interval day", "void")] == [
        "byte",
        "short",
        "integer",
        "interval day",
        "void",
    ]
    assert str(from_json_type("geometry(OGC:CRS84)")) == "geometry(OGC:CRS84)"
    assert str(from_json_type({"type": "udt", "class": "x"})) == "udt"


@pytest.mark.parametrize(
    ("text", "empty"), [("map<string, array<struct<>>>", True), ("struct<a: int>", False), ("int", False)]
)
def test_structs_without_fields(text: str, empty: bool) -> None:
    kind = parse_type(text)
    assert kind is not None and has_empty_struct(kind) is empty


def test_names_in_any_case() -> None:
    kind = MapType(m.STRING, StructType((Field("A", ArrayType(StructType((Field("bC", m.INT),)))),)))
    assert str(m.fold_names(kind)) == "map<string,struct<a:array<struct<bc:int>>>>"
