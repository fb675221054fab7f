"""Contracts: how they are written, what is wrong with them, and what they are held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqb.build.node.analyse import iter_contract_differences
from sqb.cache import codec
from sqb.checks.node_checks import NodeChecks
from sqb.checks.stored import restore_checks
from sqb.compile.model import Node, Project
from sqb.errors.base import SqbError, flatten
from sqb.lake.port import Column
from sqb.project.models.contract import format_contract_type, read_contract
from sqb.project.models.grammar import Malformed, Span
from sqb.types.spark_json import from_json_type
from sqb.workspace import open_workspace
from unit.folders import TOML, write


def columns(text: str) -> list[str]:
    return [f"{c.name} {c}" for c in read_contract(text, Span(0, len(text)))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id bigint", ["id bigint"]),
        ("(id BIGINT NOT NULL, Name string,)", ["id bigint not null", "Name string"]),
        ("a integer, b long, c short, d byte, e bool", ["a int", "b bigint", "c smallint", "d tinyint", "e boolean"]),
        ("a varchar(10), b char(3), c text", ["a string", "b string", "c string"]),
        ("a decimal, b numeric(12), c dec( 10 , 2 )", ["a decimal(10,0)", "b decimal(12,0)", "c decimal(10,2)"]),
        ("a timestamp_ltz, b timestamp_ntz, c date", ["a timestamp", "b timestamp_ntz", "c date"]),
        ("a array<array<int>> not null, b string", ["a array<array<int>> not null", "b string"]),
        ("m map<string, decimal(10,2)>", ["m map<string,decimal(10,2)>"]),
        ("s struct<A: int, `b c` date, d struct<e: date>>", ["s struct<a:int,b c:date,d:struct<e:date>>"]),
        ("`odd name` int, `not` int", ["odd name int", "not int"]),
        ("a interval day to second not null, b time(3)", ["a interval day to second not null", "b time(3)"]),
        ("a struct<b: int not null comment 'x', c: date>", ["a struct<b:int,c:date>"]),
    ],
)
def test_columns(text: str, expected: list[str]) -> None:
    assert columns(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "a contract needs columns", ""),
        ("id", "a type is expected here", "d"),
        ("id bigit", "there is no type `bigit`", "bigit"),
        ("id bigint nut null", "a comma or NOT NULL is expected here", "nut"),
        ("id bigint not nil", "NULL is expected after NOT", "nil"),
        ("id int, ID int", "the contract has the column `ID` twice", "ID"),
        ("a array int", "`<` is expected here", "int"),
        ("a array<int", "`>` is expected here", "t"),
        ("a map<int>", "a comma is expected here", ">"),
        ("a decimal(50,2)", "a decimal is decimal(p,s), with p up to 38 and s up to p", "decimal"),
        ("a decimal(x)", "a number is expected here", "x"),
        ("a struct<int>", "a type is expected here", ">"),
        ("3 int", "a column's name is expected here", "3"),
        ("a array<void>", "a column cannot have the type array<void>", "array"),
        ("a interval day to year", "`year` does not follow day in an interval", "year"),
    ],
)
def test_what_is_no_contract(text: str, message: str, at: str) -> None:
    with pytest.raises(Malformed) as caught:
        columns(text)
    assert caught.value.message == message
    assert text[caught.value.offset :].startswith(at)


ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
STRUCT = {
    "type": "struct",
    "fields": [{"name": "A", "type": "long", "nullable": True}, {"name": "b", "type": ARRAY, "nullable": True}],
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("integer", "int"),
        ("long", "bigint"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("varchar(10)", "string"),
        ("string collate UTF8_LCASE", "string"),
        ("timestamp_ntz", "timestamp_ntz"),
        (ARRAY, "array<int>"),
        (STRUCT, "struct<a:bigint,b:array<int>>"),
        ({"type": "map", "keyType": "string", "valueType": STRUCT}, "map<string,struct<a:bigint,b:array<int>>>"),
    ],
)
def test_types_of_spark_in_the_spelling_of_contracts(kind: Any, expected: str) -> None:
    assert format_contract_type(from_json_type(kind)) == expected
    assert columns(f"c {expected.replace(':', ': ')}") == [f"c {expected}"]


def test_differences_are_of_names_and_types_and_not_of_order() -> None:
    promised = read_contract(text := "id bigint not null, amount decimal(10,2), s array<int>", Span(0, len(text)))
    fits = [Column("S", ARRAY), Column("AMOUNT", "decimal(10,2)"), Column("id", "long")]
    assert list(iter_contract_differences(promised, fits)) == []
    result = [Column("extra", "string"), Column("id", "integer"), Column("s", ARRAY)]
    assert list(iter_contract_differences(promised, result)) == [
        ("id", "bigint not null", "int"),
        ("amount", "decimal(10,2)", "(missing)"),
        ("extra", "(not in contract)", "string"),
    ]


def test_a_small_integer_is_an_int_in_the_table() -> None:
    promised = read_contract(text := "a int, b smallint, c array<int>", Span(0, len(text)))
    array = {"type": "array", "elementType": "byte", "containsNull": True}
    assert (
        list(iter_contract_differences(promised, [Column("a", "short"), Column("b", "short"), Column("c", array)]))
        == []
    )
    # A result that is wider than the promise breaks it.
    wider = [Column("a", "long"), Column("b", "integer"), Column("c", array)]
    assert list(iter_contract_differences(promised, wider)) == [("a", "int", "bigint"), ("b", "smallint", "int")]


def node(root: Path, header: str, **more: str) -> Node:
    project = open_workspace(write(root, {"models/s/m.sql": f"{header}\nSELECT 1 AS id", **more})).project
    assert codec.decode(Project, codec.encode(project)) == project
    return project.nodes["s.m"]


def test_every_spelling_is_one_contract_and_identity(tmp_path: Path) -> None:
    written = "id bigint not null, m map<string, int>"
    line = node(tmp_path / "a", f"-- @contract: {written}")
    assert line.contract is not None and str(line.contract.at) == "models/s/m.sql:1:15"
    # What must not be NULL is held against the rows, as a constraint.
    assert [(c.role, c.name, c.columns) for c in restore_checks(line.checks.checks)] == [
        ("constraint", "not_null", ("id",))
    ]
    others = [
        node(tmp_path / "b", "-- @contract: m map<string,integer>\n-- @contract: id BIGINT  NOT NULL"),
        node(tmp_path / "c", "MODEL (\n  contract (\n  id long not null, -- the key\n  m map<string, int>\n  )\n);"),
        node(tmp_path / "d", "", **{"sqlbuild_project.toml": TOML + f'[defaults]\ncontract = "{written}"\n'}),
    ]
    assert {n.config_hash for n in others} == {line.config_hash}
    changed = [
        node(tmp_path / "e", ""),
        node(tmp_path / "f", "-- @contract: id bigint, m map<string, int>"),
        node(tmp_path / "g", "-- @contract: id int not null, m map<string, int>"),
    ]
    assert len({line.config_hash, *(n.config_hash for n in changed)}) == 4
    assert changed[0].checks == NodeChecks()


@pytest.mark.parametrize(
    ("header", "error", "place", "hint"),
    [
        ("-- @contract: id bigit", "BadHeader", "1:18", "did you mean 'bigint'?"),
        ("MODEL (\n  contract (id int, at timestmp)\n);", "BadHeader", "2:24", "did you mean 'timestamp'"),
        ("-- @contract: true", "BadHeader", "1:18", "types are Spark's"),
        ("-- @contract: a int\n-- @contract: A int", "BadValue", "1:15", "is there twice"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(
    tmp_path: Path, header: str, error: str, place: str, hint: str
) -> None:
    with pytest.raises(SqbError) as caught:
        node(tmp_path, header)
    entry = flatten(caught.value)[0]
    assert (type(entry).__name__, str(entry.at)) == (error, f"models/s/m.sql:{place}")
    assert hint in str(entry.hint)
