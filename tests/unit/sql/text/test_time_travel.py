"""The version that a query asks for, read from its text."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query
from sqb.sql.text.time_travel import parse_time_travel


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("VERSION AS OF 'audit'", "VERSION AS OF 'audit'"),
        ("FOR VERSION AS OF 'audit' AS a", "VERSION AS OF 'audit'"),
        ("for system_version as of 123 WHERE id > 1", "VERSION AS OF '123'"),
        ('VERSION AS OF "b-1"', "VERSION AS OF 'b-1'"),
        ("TIMESTAMP AS OF '2024-01-01 10:00:00'", "TIMESTAMP AS OF '2024-01-01 10:00:00'"),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01'", "TIMESTAMP AS OF '2024-01-01'"),
        ("TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", None),
        ("TIMESTAMP AS OF '2024-01-01'::timestamp", None),
        ("TIMESTAMP AS OF TIMESTAMP 'now'", None),
        ("TIMESTAMP AS OF '2024'", None),
        ("AS a", None),
    ],
)
def test_travel(clause: str, expected: str | None) -> None:
    sql = f"SELECT * FROM raw.t {clause}"
    query = read_query(sql, {})
    travel = parse_time_travel(query.runnable, query.slots[0])
    assert (travel.clause if travel else None) == expected
    if travel is not None:
        assert sql[: travel.end].endswith(("'audit'", "123", '"b-1"', "00:00'", "01'"))


@pytest.mark.parametrize(
    "clause",
    [
        "TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY",
        "FOR TIMESTAMP AS OF date_sub(current_date, 1)",
        "TIMESTAMP AS OF TIMESTAMP 'yesterday'",
        "TIMESTAMP AS OF CAST('today' AS TIMESTAMP)",
    ],
)
def test_a_time_that_is_computed_from_the_clock_makes_a_query_volatile(clause: str) -> None:
    assert read_query(f"SELECT * FROM raw.t {clause} AS o", {}).volatile
    assert not read_query("SELECT * FROM raw.t TIMESTAMP AS OF '2024-01-01' AS o", {}).volatile
