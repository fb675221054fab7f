"""Checks against the columns of a result: names alone, and with types."""

from __future__ import annotations

import pytest

from sqb.checks.validate_columns import find_misfits
from sqb.errors.project import BadCheckArguments, CheckColumnMissing, CheckColumnType
from sqb.types.classes import classify_type
from sqb.types.iceberg import read_stored_type
from sqb.types.model import INT, Type
from sqb.types.parse import parse_type
from support.checks import check


def kind_of(text: str | None) -> Type | None:
    """A type in Spark's notation, or in that of a table's state."""
    return None if text is None else read_stored_type(text) if text[0] in '"[' else parse_type(text)


def check_columns(text: str, **columns: str | None) -> list[str]:
    kinds = {name: kind_of(kind) for name, kind in columns.items()}
    return [f"{type(e).__name__}: {e.message}" for e in find_misfits([check(text)], kinds)]


def test_a_column_that_does_not_exist() -> None:
    (error,) = find_misfits([check("compare(amuont, >=, 0)")], {"id": None, "amount": None})
    assert isinstance(error, CheckColumnMissing)
    assert error.message == 'compare(amuont, >=, 0): there is no column "amuont"'
    assert error.hint == "did you mean 'amount'?"
    assert str(error.at) == "models/m.sql:1:17"
    assert find_misfits([check("not_null(ID)")], {"id": None}) == []
    assert find_misfits([check("column_exists(x)")], {"id": None}) == []
    assert len(find_misfits([check("check(a > b)")], {"x": None})) == 2


@pytest.mark.parametrize(
    ("text", "fine", "wrong"),
    [
        ("compare(v, >=, 0)", ["INT", '"long"', "decimal(10, 2)", "double", None], ["string", "date", "boolean"]),
        ("compare(v, >=, '2026')", ["string", "date", '"timestamptz"', "varchar(3)"], ["int", "array<int>"]),
        ("in_list(v, true)", ["boolean"], ["int"]),
        ("min(v, >, DATE '2020-01-01')", ["date", "timestamp", "timestamp_ntz"], ["string"]),
        ("like(v, 'a')", ["string", '"uuid"'], ["int", "binary"]),
        ("sequential(v)", ["int", "decimal(5,0)"], ["double", "string"]),
        ("unique(v)", ["int", "struct<a:int>", "array<int>", "interval day"], ["map<string,int>"]),
        ("mean(v, >, 0)", ["float", "byte", "short"], ["string", "date"]),
        ("freshness(v, 1h)", ["date", "timestamp"], ["bigint", "string"]),
        ("not_empty(v)", ["string", "array<int>", "map<int,int>", '["list","int",true]'], ["int"]),
        ("length_eq(v, 1)", ["string", "binary"], ["array<int>"]),
        ("not_null(v)", ["map<int,int>", "variant", '["struct",[["a","int",true]]]'], []),
    ],
)
def test_types(text: str, fine: list[str | None], wrong: list[str]) -> None:
    assert [kind for kind in fine if find_misfits([check(text)], {"v": kind_of(kind)})] == []
    items = [find_misfits([check(text)], {"v": kind_of(kind)}) for kind in wrong]
    assert [type(errors[0]) if errors else None for errors in items] == [CheckColumnType] * len(wrong)


@pytest.mark.parametrize("text", ["2026", "2026-1", "2026-01-31", " 2026-01-31T12:00:00.5Z", "+2026-01-31 12:00"])
def test_texts_that_are_times(text: str) -> None:
    assert (
        check_columns(f"compare(v, >=, '{text}')", v="date")
        == check_columns(f"compare(v, >=, '{text}')", v="timestamp_ntz")
        == []
    )


@pytest.mark.parametrize("text", ["soon", "", "31.01.2026", "2026-13-01", "2026-01-32", "2026/01/31", "12"])
def test_texts_that_are_no_times(text: str) -> None:
    (error,) = find_misfits([check(f"in_list(v, '2026-01-31', '{text}')")], {"v": kind_of("timestamp")})
    assert isinstance(error, BadCheckArguments)
    assert error.message == f"in_list(v, '2026-01-31', '{text}'): v is timestamp, and '{text}' is not a date or a time"
    assert (
        check_columns(f"compare(v, >=, '{text}')", v="string")
        == check_columns(f"compare(v, >=, '{text}')", v=None)
        == []
    )


@pytest.mark.parametrize(
    ("one", "other", "fine"),
    [
        ("int", "decimal(10,2)", True),
        ("double", "bigint", True),
        ("date", "timestamp", True),
        ("string", "varchar(3)", True),
        ("int", None, True),
        ("int", "string", False),
        ("int", "date", False),
        ("string", "timestamp", False),
        ("boolean", "int", False),
        ("array<int>", "struct<a:int>", False),
    ],
)
def test_columns_that_are_compared(one: str, other: str | None, fine: bool) -> None:
    for text in ("compare(a, <, b)", "no_overlap(b, a)"):
        assert (check_columns(text, a=one, b=other) == []) is fine
    there = {"raw.people": {"ID": kind_of(other)}}
    misfits = find_misfits([check("references(a, raw.people.id)")], {"a": kind_of(one)}, there)
    assert [e.message for e in misfits] == (
        [] if fine else [f"references(a, raw.people.id): a is {one} and raw.people.id is {other}"]
    )


def test_a_column_that_the_other_relation_does_not_have() -> None:
    (error,) = find_misfits([check("references(a, raw.people.idd)")], {"a": INT}, {"raw.people": {"id": INT}})
    assert isinstance(error, CheckColumnMissing)
    assert error.message == 'references(a, raw.people.idd): raw.people has no column "idd"'
    assert error.hint == "did you mean 'id'?"
    assert find_misfits([check("references(a, raw.people.idd)")], {"a": INT}) == []


def test_the_words_of_types() -> None:
    assert check_columns("mean(v, >, 0)", v='"string"') == [
        "CheckColumnType: mean(v, >, 0): v is string, and here it must be a number"
    ]
    assert check_columns("mean(v, >, 0)", v="ARRAY<LONG>") == check_columns("mean(v, >, 0)", v='["list", "long", true]')
    assert "v is array<bigint>" in check_columns("mean(v, >, 0)", v="ARRAY<LONG>")[0]
    assert "v is timestamp_ntz" in check_columns("mean(v, >, 0)", v='"timestamp"')[0]
    interval = kind_of("interval day to second")
    assert interval is not None and classify_type(interval) is None
