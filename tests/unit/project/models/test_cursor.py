"""What may be written of a cursor, and what its points are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sqb.errors.base import Errors
from sqb.project.models.cursor import (
    DAY,
    HIGHEST,
    LOWEST,
    Cursor,
    Form,
    Policy,
    build_cursor,
    format_literal,
    format_point,
    get_cursor_type,
    is_point,
    parse_length,
    parse_point,
)
from unit.project.models.test_keys import FILE, config, settle

HOUR = DAY // 24
TS = "-- @incremental: ts\n"
ID = "-- @incremental: id\n-- @cursor_type: integer\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (TS, Cursor("ts", "timestamp", "delete_insert")),
        ("-- @kind: incremental\n-- @incremental: ts", Cursor("ts", "timestamp", "delete_insert")),
        ("-- @materialized: incremental\n-- @cursor: ts", Cursor("ts", "timestamp", "delete_insert")),
        ("MODEL (kind incremental, cursor ts);", Cursor("ts", "timestamp", "delete_insert")),
        (TS + "-- @incremental_initial: 2024-01-01", Cursor("ts", "timestamp", "delete_insert", "2024-01-01")),
        (TS + "-- @unique_key: a, b", Cursor("ts", "timestamp", "merge", unique_key=("a", "b"))),
        (TS + "-- @incremental_strategy: append", Cursor("ts", "timestamp", "append")),
        (
            TS + "-- @cursor_grain: 1h\n-- @lookback: 1d12h",
            Cursor("ts", "timestamp", "delete_insert", grain=HOUR, lookback=36 * HOUR),
        ),
        ("-- @incremental: id\n-- @incremental_initial: 0", Cursor("id", "integer", "delete_insert", "0")),
        (
            ID + "-- @lookback: 100\n-- @cursor_grain: 10",
            Cursor("id", "integer", "delete_insert", grain=10, lookback=100),
        ),
        (TS + "-- @lookback: 0", Cursor("ts", "timestamp", "delete_insert")),
    ],
)
def test_cursors(header: str, expected: Cursor, errors: Errors) -> None:
    settings = settle(header, errors)
    assert errors.found == []
    assert settings["kind"] == "incremental"
    assert build_cursor(settings) == expected


@pytest.mark.parametrize(
    ("header", "kind", "at", "says"),
    [
        (
            TS + "-- @lookback: 2x",
            "BadValue",
            "2:15",
            "`lookback` must be a duration such as 90m, 24h or 14d, not '2x'",
        ),
        (TS + "-- @lookback: 10", "BadValue", "2:15", "`lookback` must be a duration"),
        (TS + "-- @lookback: -1d", "BadValue", "2:15", "`lookback` must be a duration"),
        (ID + "-- @lookback: 1d", "BadValue", "3:15", "`lookback` must be a whole number, not '1d'"),
        (TS + "-- @cursor_grain: 0s", "BadValue", "2:19", "`cursor_grain` must be a duration"),
        (ID + "-- @cursor_grain: 0", "BadValue", "3:19", "`cursor_grain` must be a whole number greater than zero"),
        (TS + "-- @cursor_start: soon", "BadValue", "2:19", "`cursor_start` must be a date or timestamp"),
        (TS + "-- @cursor_start: 2024-13-01", "BadValue", "2:19", "`cursor_start` must be a date or timestamp"),
        (ID + "-- @cursor_start: 2024-01-01", "BadValue", "3:19", "`cursor_start` must be a whole number"),
        (TS + "-- @cursor_type: date", "BadValue", "2:18", 'there is no cursor_type "date"'),
        (TS + "-- @replay_on_change: never", "BadValue", "2:23", "must be forward, full or bounded-<duration>"),
        (TS + "-- @replay_on_change: bounded", "BadValue", "2:23", "must be forward, full or bounded-<duration>"),
        (TS + "-- @replay_on_change: bounded-x", "BadValue", "2:23", "must be forward, full or bounded-<duration>"),
        (TS + "-- @query_change_backfill: bounded-0", "BadValue", "2:28", "bounded-<duration>"),
        (ID + "-- @replay_on_change: bounded-1d", "BadValue", "3:23", "must be forward, full or bounded-<number>"),
        (TS + "-- @incremental_strategy: merge", "MissingKey", "2:27", "the strategy merge needs `unique_key`"),
        (TS + "-- @incremental_strategy: upsert", "BadValue", "2:27", 'there is no incremental_strategy "upsert"'),
        (
            TS + "-- @incremental_strategy: append\n-- @unique_key: id",
            "Contradiction",
            "3:17",
            "`unique_key` has no meaning for the strategy append",
        ),
        (TS + "-- @refresh: full", "Contradiction", "2:14", "`refresh` has no meaning for the kind incremental"),
        ("-- @kind: append\n" + TS, "Contradiction", "1:11", "and `kind` says append"),
        (TS + "-- @cursor: id", "DuplicateKey", "2:13", "`cursor` sets `cursor` again"),
        ("-- @lookback: 1d", "Contradiction", "1:15", "`lookback` has no meaning for the kind table"),
        ("-- @kind: merge\n-- @unique_key: a\n-- @cursor: a", "Contradiction", "3:13", "`cursor` has no meaning"),
    ],
)
def test_problems(header: str, kind: str, at: str, says: str, errors: Errors) -> None:
    settle(header, errors)
    (error,) = errors.found
    assert (type(error).__name__, str(error.at)) == (kind, f"{FILE}:{at}")
    assert says in error.message


def test_every_problem_is_told_at_once(errors: Errors, seen: Callable[[], Any]) -> None:
    settle(TS + "-- @lookback: a\n-- @cursor_grain: b\n-- @cursor_start: c\n-- @replay_on_change: d", errors)
    assert sorted(at for _, at, _ in seen()) == [f"{FILE}:2:15", f"{FILE}:3:19", f"{FILE}:4:19", f"{FILE}:5:23"]


def test_a_wrong_value_that_many_inherit_is_told_once(errors: Errors) -> None:
    for _ in range(3):
        settle(TS, errors, config({"lookback": "much"}))
    assert len(errors.found) == 1


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "timestamp"),
        ({"cursor_start": "2024-01-01"}, "timestamp"),
        ({"cursor_start": "-5"}, "integer"),
        ({"cursor_start": "5", "cursor_type": "timestamp"}, "timestamp"),
        ({"cursor_type": "integer"}, "integer"),
    ],
)
def test_types(settings: dict[str, str], kind: str) -> None:
    assert get_cursor_type(settings) == kind


@pytest.mark.parametrize(
    ("text", "form", "zone", "expected"),
    [
        ("1970-01-02", "timestamp", UTC, DAY),
        ("1970-01-01T01:00:00", "timestamp", UTC, HOUR),
        ("1970-01-01 01:00:00.5", "timestamp", UTC, HOUR + 500_000),
        ("1970-01-01 01:00:00", "timestamp", ZoneInfo("Europe/Berlin"), 0),
        ("1970-01-01 01:00:00Z", "timestamp", ZoneInfo("Europe/Berlin"), HOUR),
        ("1970-01-01 01:00:00+01:00", "timestamp", UTC, 0),
        ("1970-01-01 01:00:00", "timestamp_ntz", ZoneInfo("Europe/Berlin"), HOUR),
        ("1970-01-02 23:00:00", "date", UTC, DAY),
        ("1969-12-31", "date", UTC, -DAY),
        ("-7", "integer", UTC, -7),
    ],
)
def test_points(text: str, form: Form, zone: Any, expected: int) -> None:
    assert parse_point(text, form, zone) == expected
    assert parse_point(format_point(expected, form), form, UTC) == expected


def test_literals_are_all_of_one_length() -> None:
    # Places in a query that Spark reports do not depend on the window that it was run for.
    forms: tuple[Form, ...] = ("timestamp", "timestamp_ntz", "date")
    names = {len(format_literal(p, f)) for f in forms for p in (LOWEST["timestamp"], 0, HIGHEST["timestamp"])}
    names |= {len(format_literal(p, "integer")) for p in (LOWEST["integer"], 0, HIGHEST["integer"])}
    assert names == {48}


def test_what_lies_beyond_the_calendar_is_its_end() -> None:
    assert format_point(parse_point("9999-12-31", "date", UTC) + DAY, "date") == "9999-12-31"
    assert (
        format_literal(HIGHEST["timestamp"] + DAY, "timestamp").strip() == "TIMESTAMP_LTZ '9999-12-31 23:59:59.999999Z'"
    )


def test_lengths() -> None:
    assert parse_length("90m", "timestamp") == 90 * 60 * 1_000_000
    assert parse_length("14d", "timestamp") == 14 * DAY
    assert [parse_length(t, "integer") for t in ("7", "7d", "-7", "")] == [7, None, None, None]
    assert not is_point("7", "timestamp") or not is_point("2024-01-01", "integer")


@pytest.mark.parametrize("text", ["forward", "full", "bounded-14d", "bounded-1000"])
def test_policies(text: str) -> None:
    assert str(Policy.parse(text)) == text


def test_what_is_no_policy() -> None:
    assert Policy.parse("bounded14d") is None
