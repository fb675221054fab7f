"""Differences between two relations, as they are printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sqb.console.inspect.diff import format_cell, format_diff
from sqb.console.style import Paint
from sqb.inspect.diff import ColumnChange, DiffRequest, DiffResult, Side
from sqb.names import Relation
from sqb.spark.data.diff import ChangedRow, RowsDiff
from unit.plan.worlds import node


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Paint:
    monkeypatch.setenv("NO_COLOR", "1")
    return Paint()


def side(what: str, rows: int | None, snapshot: int | None = None) -> Side:
    return Side(what, Relation("marts", "m"), lambda session: None, snapshot, rows, "dev")


BEFORE, NOW = side("what is built", 320, 77), side("what its query gives now", 321)


def build_result(
    rows: Any, columns: tuple[ColumnChange, ...] = (), key: tuple[str, ...] = (), **more: Any
) -> DiffResult:
    compared = more.pop("compared", ("id", "v", "w"))
    question = DiffRequest(node("marts.m"), BEFORE, NOW)
    return DiffResult(question, BEFORE, NOW, columns, compared, key, rows, **more)


HEAD = [
    "marts.m: what is built → what its query gives now",
    "  from  marts.m, snapshot 77: 320 rows",
    "  to    marts.m: 321 rows",
]


def test_nothing_differs(plain: Paint) -> None:
    same = build_result(RowsDiff(0, 0), notes=("something",))
    assert same.same
    assert list(format_diff(same, 80, plain)) == [*HEAD, "No differences: 320 rows, 3 columns.", "note: something"]


def test_rows_by_key_with_columns(plain: Paint) -> None:
    rows = RowsDiff(
        2,
        1,
        1200,
        {"v": 3, "w": 1200},
        added_rows=({"v": "x", "id": 10, "w": None}, {"v": " y", "id": 9, "w": True}),
        removed_rows=({"id": 1, "v": "日本", "w": 1.5},),
        changed_rows=(
            ChangedRow({"id": 5}, {"v": ("a", "b"), "w": (None, [1, 2])}),
            ChangedRow({"id": 55}, {"w": (1, 2)}),
        ),
    )
    columns = (ColumnChange("id", "int", "bigint"), ColumnChange("o", "date", None), ColumnChange("n", None, "int"))
    answer = build_result(rows, columns, ("id",))
    assert not answer.same
    assert list(format_diff(answer, 80, plain)) == [
        *HEAD,
        "Columns: 1 added, 1 removed, 1 retyped",
        "  ~ id int → bigint",
        "  - o date",
        "  + n int",
        "Rows by id: 2 added, 1 removed, 1,200 changed, -881 unchanged",
        "  changed in w (1,200), v (3)",
        "    id  v     w",
        "  + 10  x     NULL",
        "  + 9   ' y'  true",
        "  - 1   日本  1.5",
        "  ~ id=5   v a → b, w NULL → [1, 2]",
        "  ~ id=55  w 1 → 2",
        "  ~ … and 1,198 more",
    ]


def test_whole_rows_and_more_columns_than_fit(plain: Paint) -> None:
    names = tuple(f"c{i}" for i in range(12))
    answer = build_result(RowsDiff(3, 0, added_rows=(dict.fromkeys(names, 1),)), compared=names)
    lines = list(format_diff(answer, 48, plain))
    assert lines[3:] == [
        "Rows, whole rows compared: 3 added, 0 removed, 320 unchanged",
        "    c0  c1  c2  c3  c4  c5  c6  c7  c8  c9  …",
        "  + 1   1   1   1   1   1   1   1   1   1   …",
        "  + … and 2 more",
    ]
    assert list(format_diff(answer, 10, plain))[4] == "    c0  c1  …", "the key and something to tell it by"
    assert list(format_diff(answer, 80, plain))[4].endswith("c11")
    both = build_result(RowsDiff(1, 1, removed_rows=({"id": 1, "v": 2, "w": 3},)))
    assert list(format_diff(both, 80, plain))[-1] == "  (--key COLUMNS pairs rows, and shows what changed in them)"


def test_only_columns_differ_or_no_row_can_be_compared(plain: Paint) -> None:
    columns = (ColumnChange("n", None, "int"),)
    assert list(format_diff(build_result(RowsDiff(0, 0), columns), 80, plain))[3:] == [
        "Columns: 1 added",
        "  + n int",
        "Rows: the same 320 in the 3 columns that both have",
    ]
    apart = replace(build_result(None, columns), compared=(), notes=("the two have no column in common",))
    assert not apart.same
    assert list(format_diff(apart, 80, plain))[3:] == [
        "Columns: 1 added",
        "  + n int",
        "note: the two have no column in common",
    ]
    assert apart.to_data()["rows"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("NULL", "'NULL'"),
        ("", "''"),
        (" a", "' a'"),
        ("a\nb", "a\\nb"),
        (False, "false"),
        (1.5, "1.5"),
        ({"a": None}, '{"a": null}'),
        ("x" * 40, "x" * 31 + "…"),
    ],
)
def test_values_can_be_told_apart(value: Any, text: str) -> None:
    assert format_cell(value) == text
