"""What a query asks the clock, and what it is told at a fixed time."""

from __future__ import annotations

import pytest

from sqb.sql.text.frozen_time import iter_clock_calls, render_clock_call


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT now(), NOW ( )", ["now()", "NOW ( )"]),
        ("SELECT current_date, current_date()", ["current_date", "current_date()"]),
        ("SELECT current_timestamp AS t", ["current_timestamp"]),
        ("SELECT localtimestamp, curdate()", ["localtimestamp", "curdate()"]),
        ("SELECT unix_timestamp(), unix_timestamp(x), unix_timestamp", ["unix_timestamp()"]),
        ("SELECT datediff(current_date, d) FROM t", ["current_date"]),
        # Strings, comments and names are left alone.
        ("SELECT 'now()', \"current_date\", /* now() */ `now` -- current_date", []),
        ("SELECT t.current_date, x AS current_date, current_date.y, now FROM t", []),
        ("SELECT my.now()", []),
    ],
)
def test_calls_are_found_where_they_are_calls(sql: str, calls: list[str]) -> None:
    assert [sql[c.start : c.end] for c in iter_clock_calls(sql)] == calls


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("now", "TIMESTAMP '2026-01-02 03:04:05'"),
        ("current_timestamp", "TIMESTAMP '2026-01-02 03:04:05'"),
        ("current_date", "CAST(TIMESTAMP '2026-01-02 03:04:05' AS DATE)"),
        ("localtimestamp", "CAST(TIMESTAMP '2026-01-02 03:04:05' AS TIMESTAMP_NTZ)"),
        ("unix_timestamp", "unix_seconds(TIMESTAMP '2026-01-02 03:04:05')"),
    ],
)
def test_each_call_says_the_fixed_time_in_its_own_type(name: str, expected: str) -> None:
    assert render_clock_call(name, "2026-01-02 03:04:05") == expected
