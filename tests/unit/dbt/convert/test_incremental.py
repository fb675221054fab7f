"""Incremental models: the cursor of their condition, and the kind that follows."""

from __future__ import annotations

from typing import Any

import pytest

from sqb.dbt.convert.incremental import Cursor, find_cursor, translate_incremental
from sqb.dbt.convert.marks import Marks, This

FIRST = "select a, b from x"


def cursor_of(condition: str, first: str = FIRST) -> Cursor | None:
    marks = Marks()
    this = marks.add(This())
    return find_cursor(first, f"{first} {condition.replace('THIS', this)}", marks.marks)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("where b > (select max(b) from THIS)", Cursor("b", "b")),
        ("WHERE x.b >= (SELECT MAX(b) FROM THIS)", Cursor("b", "b")),
        ("and ts > (select max(b) from THIS as t)", Cursor("b", "ts")),
        ("where b > (select coalesce(max(b), date '1900-01-01') from THIS)", Cursor("b", "b")),
        ("where b > (select max(b) as newest from THIS)", Cursor("b", "b")),
        ("where b > (select max(b) - interval 3 days from THIS)", Cursor("b", "b", "3d")),
        ("where b > (select max(b) - interval '2 hours' from THIS)", Cursor("b", "b", "2h")),
        ("where b > (select date_sub(max(b), 3) from THIS)", Cursor("b", "b", "3d")),
        ("where b > (select dateadd(day, -7, max(b)) from THIS)", Cursor("b", "b", "7d")),
        ("where b > (select max(b) - 100 from THIS)", Cursor("b", "b", "100")),
        ("where b > (select min(b) from THIS)", None),
        ("where b > (select max(b) from y)", None),
        ("where b > (select max(b) from THIS where a = 1)", None),
        ("where b > (select max(b) from THIS) or a = 1", None),
        ("where b > (select max(b) from THIS) and c = 1", None),
        ("where b not in (select b from THIS)", None),
        ("where b > (select max(b) - interval 3 months from THIS)", None),
        ("where b > current_date()", None),
    ],
)
def test_the_cursor_of_a_condition(condition: str, expected: Cursor | None) -> None:
    assert cursor_of(condition) == expected


def test_a_text_that_is_another_one_has_no_cursor() -> None:
    marks = Marks()
    this = marks.add(This())
    assert find_cursor("select a from x", f"select b from x where b > (select max(b) from {this})", marks.marks) is None


@pytest.mark.parametrize(
    ("settings", "cursor", "header"),
    [
        (
            {"unique_key": "id", "incremental_strategy": "merge"},
            Cursor("updated_at", "updated_at", "3d"),
            {
                "kind": "incremental",
                "cursor": "updated_at",
                "lookback": "3d",
                "unique_key": "id",
                "on_schema_change": "ignore",
            },
        ),
        (
            {"incremental_strategy": "append", "on_schema_change": "fail"},
            Cursor("order_id", "order_id"),
            {
                "kind": "incremental",
                "cursor": "order_id",
                "cursor_type": "integer",
                "incremental_strategy": "append",
                "on_schema_change": "fail",
            },
        ),
        ({"unique_key": ["a", "b"]}, None, {"kind": "merge", "unique_key": ["a", "b"], "on_source_delete": "keep"}),
        ({}, None, {"kind": "append", "on_schema_change": "ignore"}),
        ({"incremental_strategy": "insert_overwrite"}, None, {"kind": "table"}),
        (
            {
                "incremental_strategy": "microbatch",
                "event_time": "ts",
                "batch_size": "hour",
                "begin": "2024-01-01",
                "lookback": 3,
            },
            None,
            {
                "kind": "incremental",
                "cursor": "ts",
                "cursor_start": "2024-01-01",
                "cursor_grain": "1h",
                "lookback": "3h",
                "incremental_strategy": "delete_insert",
                "on_schema_change": "ignore",
            },
        ),
    ],
)
def test_the_kind_of_an_incremental_model(
    settings: dict[str, Any], cursor: Cursor | None, header: dict[str, Any]
) -> None:
    assert translate_incremental(settings, cursor, has_condition=False, partition=[]).header == header


def test_partitions_that_are_replaced_are_windows_only_by_the_same_column() -> None:
    settings = {"incremental_strategy": "insert_overwrite"}
    by_day = translate_incremental(settings, Cursor("day", "day"), has_condition=True, partition=["day"])
    assert by_day.header["incremental_strategy"] == "delete_insert"
    other = translate_incremental(settings, Cursor("day", "day"), has_condition=True, partition=["region"])
    assert other.header == {"kind": "table"}
    assert [what for what, _ in other.notes] == ["insert_overwrite"]
