"""Model headers in both spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.errors.base import Errors
from sqb.names import At
from sqb.project.models.header import parse_header
from sqb.project.values import Call

FILE = "models/m.sql"


def values(text: str, errors: Errors) -> dict[str, Any]:
    return {key: setting.value for key, setting in parse_header(text, FILE, errors).settings.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", {}),
        ("", {}),
        ("-- @kind: table\nSELECT 1", {"kind": "table"}),
        ("--@kind:view\nSELECT 1", {"kind": "view"}),
        ("-- @KIND: view\r\nSELECT 1\r\n", {"kind": "view"}),
        ("-- @materialized: table\nSELECT 1", {"kind": "table"}),
        ("-- a comment\n\n/* and\nanother */\n-- @kind: view\nSELECT 1", {"kind": "view"}),
        ("/* /* nested */ */ -- @kind: view\nSELECT 1", {"kind": "view"}),
        ("-- @enabled\nSELECT 1", {"enabled": True}),
        ("-- @enabled:\nSELECT 1", {"enabled": True}),
        ("-- @enabled: FALSE\nSELECT 1", {"enabled": False}),
        ("-- @tag: a\n-- @tags: b, c\n-- @tag: [d]\nSELECT 1", {"tags": ("a", "b", "c", "d")}),
        ("-- @kind: table -- a note\nSELECT 1", {"kind": "table"}),
        ("-- @description: all of it, (even -- this\nSELECT 1", {"description": "all of it, (even -- this"}),
        ("-- @description: 'quoted'\nSELECT 1", {"description": "quoted"}),
        ("-- @sorted_by: id DESC, ts\nSELECT 1", {"sorted_by": ("id DESC", "ts")}),
        ("-- @table_properties: a.b = 1.0, c: d\nSELECT 1", {"table_properties": {"a.b": "1.0", "c": "d"}}),
        ("-- @column: id: the order's id, never NULL\nSELECT 1", {"columns": {"id": "the order's id, never NULL"}}),
        ("-- @column: a = x\n-- @columns: [b, c]\nSELECT 1", {"columns": {"a": "x", "b": "", "c": ""}}),
        ("-- @query_change_backfill: full\nSELECT 1", {"replay_on_change": "full"}),
        ("-- @john please look\n-- @@var\n-- @my_macro(1)\nSELECT 1", {}),
        ("SELECT '-- @kind: view' AS x /* -- @kind: view */", {}),
        ("MODEL (kind view);SELECT 1", {"kind": "view"}),
        ("model ( kind table, );\nSELECT 1", {"kind": "table"}),
        ("MODEL ();\nSELECT 1", {}),
        (
            "-- first\nMODEL\n(\n-- in it, with a comma\nKIND table /* , */, enabled\n) -- end\n;\nSELECT 1",
            {"kind": "table", "enabled": True},
        ),
        ("MODEL (tags a);SELECT 1", {"tags": ("a",)}),
        ("MODEL (tags [a], tag b);SELECT 1", {"tags": ("a", "b")}),
        ("MODEL (description 'it''s; (a, b)');SELECT 1", {"description": "it's; (a, b)"}),
        ('MODEL (run_despite_unchanged "24h");SELECT 1', {"run_despite_unchanged": "24h"}),
        (
            "MODEL (partitioned_by (days(ts), bucket(16,id)));SELECT 1",
            {"partitioned_by": ("days(ts)", "bucket(16,id)")},
        ),
        (
            "MODEL (config {a: 1, 'b' = [x, true], c: {d: 1.5}});SELECT 1",
            {"config": {"a": 1, "b": ["x", True], "c": {"d": 1.5}}},
        ),
        ("MODEL (columns {id: 'the id', n: name});SELECT 1", {"columns": {"id": "the id", "n": "name"}}),
        ("MODEL (columns (id, name));SELECT 1", {"columns": {"id": "", "name": ""}}),
    ],
)
def test_values(text: str, expected: dict[str, Any], errors: Errors) -> None:
    assert values(text, errors) == expected
    assert errors.found == []


@pytest.mark.parametrize(
    ("text", "key", "at"),
    [
        ("-- @kind: table\nSELECT 1", "kind", At(FILE, 1, 11, 5)),
        ("\ufeff-- @kind: table\nSELECT 1", "kind", At(FILE, 1, 11, 5)),
        ("-- x\n--   @tags:   a, b   \nSELECT 1", "tags", At(FILE, 2, 15, 4)),
        ("-- @enabled\nSELECT 1", "enabled", At(FILE, 1, 5, 7)),
        ("MODEL (\n  kind table,\n  tags [a, b]\n);", "tags", At(FILE, 3, 8, 6)),
        ("MODEL (/* , */ kind /* x */ view);", "kind", At(FILE, 1, 29, 4)),
        ("MODEL (\n  columns {\n    a: b\n  }\n);", "columns", At(FILE, 2, 11, 1)),
    ],
)
def test_places(text: str, key: str, at: At, errors: Errors) -> None:
    assert parse_header(text, FILE, errors).settings[key].at == at


def test_both_spellings_mean_the_same(errors: Errors) -> None:
    lines = (
        "-- @kind: merge\n-- @unique_key: order_id\n-- @constraint: not_null(order_id)\n-- @audit: row_count(>, 0)\n"
    )
    block = (
        "MODEL (kind merge, unique_key order_id, constraints [not_null(order_id)],\n  audits [row_count(>, 0)],\n);\n"
    )
    written, blocked = values(lines + "SELECT 1", errors), values(block + "SELECT 1", errors)
    assert written["constraints"] == (Call("not_null", ("order_id",), At(FILE, 3, 17, 18)),)
    assert blocked["audits"] == (Call("row_count", (">", "0"), At(FILE, 2, 11, 15)),)
    assert {k: [str(x) for x in v] for k, v in written.items()} == {k: [str(x) for x in v] for k, v in blocked.items()}
    assert errors.found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-- @pre_hook: SET a = 1, 2\n-- @pre_hook: 'SET b'\nSELECT 1", [("SET a = 1, 2", 1, 15), ("SET b", 2, 16)]),
        ("MODEL (pre_hooks ['SET a', \n SET b]);SELECT 1", [("SET a", 1, 20), ("SET b", 2, 2)]),
        ("MODEL (pre_hook DELETE FROM x\n WHERE f(a, b));SELECT 1", [("DELETE FROM x\n WHERE f(a, b)", 1, 17)]),
    ],
)
def test_statements_know_their_place(text: str, expected: list[tuple[str, int, int]], errors: Errors) -> None:
    entry = values(text, errors)["pre_hooks"]
    assert [(s.text, s.at.line, s.at.column) for s in entry] == expected
    assert errors.found == []


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("SELECT 1", "SELECT 1"),
        ("\ufeffSELECT 1", "SELECT 1"),
        ("-- @kind: view\n-- why\nSELECT 1", "-- why\nSELECT 1"),
        ("-- @kind: view", ""),
        ("MODEL (kind view);\nSELECT 1", "\nSELECT 1"),
        ("\ufeffMODEL (kind view) ; SELECT 1", " SELECT 1"),
    ],
)
def test_body(text: str, body: str, errors: Errors) -> None:
    assert text[parse_header(text, FILE, errors).body_start :] == body


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-- @knd: table\nSELECT 1", ("UnknownKey", "1:5", "did you mean 'kind'?")),
        ("-- @knd table\nSELECT 1", ("UnknownKey", "1:5", "did you mean 'kind'?")),
        ("-- @zzzzzz: 1\nSELECT 1", ("UnknownKey", "1:5", None)),
        ("-- @kind\nSELECT 1", ("BadHeader", "1:5", "write `-- @kind: value`")),
        ("-- @kind:\nSELECT 1", ("BadHeader", "1:5", "write `-- @kind: value`")),
        ("-- @kind table\nSELECT 1", ("BadHeader", "1:5", "write `-- @kind: table`")),
        ("-- @kind: view\n-- @kind: table\nSELECT 1", ("DuplicateKey", "2:11", "keep one of the two")),
        ("-- @kind: view\n-- @materialized: view\nSELECT 1", ("DuplicateKey", "2:19", "keep one of the two")),
        ("-- @column: a: x\n-- @column: a: y\nSELECT 1", ("DuplicateKey", "2:13", "keep one of the two")),
        ("-- @tags: [a, b\nSELECT 1", ("BadHeader", "1:11", None)),
        ("-- @unique_key: (a, b]\nSELECT 1", ("BadHeader", "1:22", None)),
        (
            "-- @audit: unique(a)\n-- @audit: not_null\nSELECT 1",
            ("BadHeader", "2:12", "write its name and its arguments in brackets, such as not_null(id)"),
        ),
        (
            "MODEL (constraints [unique(a), unique(b) c]);SELECT 1",
            ("BadHeader", "1:32", "write its name and its arguments in brackets, such as not_null(id)"),
        ),
        ("SELECT 1\n-- @kind: view\n", ("BadHeader", "2:1", "move this line to the top of the file")),
        ("SELECT 1 -- @tags: a\n", ("BadHeader", "1:10", "move this line to the top of the file")),
        ("-- @kind: view\nMODEL (kind view);\nSELECT 1", ("BadHeader", "2:1", f"the other one is at {FILE}:1:1")),
        ("MODEL (kind view);\n-- @tag: a\nSELECT 1", ("BadHeader", "2:1", f"the other one is at {FILE}:1:1")),
        ("MODEL (kind view);\nMODEL (kind view);", ("BadHeader", "2:1", f"the other one is at {FILE}:1:1")),
        ("MODEL (\n  knd view\n);", ("UnknownKey", "2:3", "did you mean 'kind'?")),
        ("MODEL (kind view, kind table);", ("DuplicateKey", "1:24", "keep one of the two")),
        ("MODEL (kind);", ("BadHeader", "1:8", "write `kind value`")),
        ("MODEL (kind: view);", ("BadHeader", "1:12", "write `kind value`")),
        ("MODEL (kind = view);", ("BadHeader", "1:13", "write `kind value`")),
        ("MODEL (3);", ("BadHeader", "1:8", "write `key value`, then a comma")),
        ("MODEL (kind view,, tags a);", ("BadHeader", "1:18", None)),
        ("MODEL (kind view)\nSELECT 1", ("BadHeader", "1:17", "end the header with `);`")),
        ("MODEL (kind view;\nSELECT 1", ("BadHeader", "1:17", "end the header with `);`")),
        ("MODEL (kind view\nSELECT 1", ("BadHeader", "1:1", "end the header with `);`")),
        ("MODEL (tags [a, b;\nSELECT 1", ("BadHeader", "1:13", None)),
        ("MODEL (tags [a, b);\nSELECT 1", ("BadHeader", "1:18", None)),
        ("MODEL (description 'open);\nSELECT 1", ("BadHeader", "1:20", None)),
        ("MODEL (config {a});\nSELECT 1", ("BadHeader", "1:16", None)),
        ("MODEL kind view;\nSELECT 1", ("BadHeader", "1:1", "write `MODEL ( kind table );` above the query")),
        ("MODLE (kind view);\nSELECT 1", ("BadHeader", "1:1", "did you mean 'MODEL'?")),
        ("-- why\nmodel_ (kind view);\nSELECT 1", ("BadHeader", "2:1", "did you mean 'MODEL'?")),
        ("MODL (kind view);\nSELECT 1", ("BadHeader", "1:1", "did you mean 'MODEL'?")),
        ("NODEL (kind view);\nSELECT 1", ("BadHeader", "1:1", "did you mean 'MODEL'?")),
    ],
)
def test_problems(text: str, problem: tuple[str, str, str | None], errors: Errors, seen: Callable[[], Any]) -> None:
    parse_header(text, FILE, errors)
    name, at, hint = problem
    assert seen() == [(name, f"{FILE}:{at}", hint)]


def test_all_problems_are_collected(errors: Errors, seen: Callable[[], Any]) -> None:
    parse_header("-- @knd: a\n-- @tgs: b\n-- @kind\nSELECT 1\n-- @kind: view", FILE, errors)
    assert [at for _, at, _ in seen()] == [f"{FILE}:{n}" for n in ("1:5", "2:5", "3:5", "5:1")]


@pytest.mark.parametrize("text", ["MODAL_WINDOW (1)", "SELECT (1)", "WITH a AS (SELECT 1) SELECT 1", "VALUES (1)"])
def test_what_is_no_header_is_left_to_sql(text: str, errors: Errors) -> None:
    header = parse_header(text, FILE, errors)
    assert (header.settings, header.body_start, errors.found) == ({}, 0, [])


_WORDS = [
    "MODEL",
    "-- @",
    "--",
    "/*",
    "*/",
    "kind",
    "knd",
    "tags",
    "column",
    "config",
    "constraint",
    "enabled",
    "SELECT 1",
    "f(x)",
]
_PIECES = st.sampled_from([*"()[]{},;:='\"`\\\n \ufeffé", *_WORDS])


@given(st.lists(_PIECES, max_size=25).map("".join), st.sampled_from(["", "MODEL (", "-- @tags: "]))
def test_nothing_that_is_written_breaks_the_reader(text: str, start: str) -> None:
    errors = Errors()
    header = parse_header(start + text, FILE, errors)
    assert 0 <= header.body_start <= len(start + text)
    lines = (start + text).split("\n")
    for error in errors.found:
        assert error.at is not None
        assert 1 <= error.at.line <= len(lines)
        assert 1 <= error.at.column <= len(lines[error.at.line - 1]) + 1
