"""Which snapshot a text means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sqb.errors.call import NoSuchSnapshot
from sqb.inspect.diff import find_snapshot
from sqb.lake.port import Columns, PastSnapshot
from sqb.names import Relation

T = Relation("s", "t")


def snapshot(number: int, run: str = "") -> PastSnapshot:
    return PastSnapshot(number, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), Columns(), run_id=run)


PAST = {
    s.id: s
    for s in (snapshot(1234), snapshot(1299, "20260101_a"), snapshot(55, "20260101_a"), snapshot(7, "20270101_b"))
}


@pytest.mark.parametrize(
    ("text", "result"),
    [("1234", 1234), ("123", 1234), ("129", 1299), ("20260101_a", 55), ("2026", 55), ("20270101_b", 7), ("7", 7)],
)
def test_a_snapshot_by_its_id_or_its_run(text: str, result: int) -> None:
    assert find_snapshot(PAST, text, T).id == result


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("12", '"12" fits 2 snapshots of s.t', "write more of it"),
        ("202", '"202" fits 3 snapshots of s.t', "write more of it"),
        (
            "9",
            's.t has no snapshot "9"',
            "there are 7 (2026-01-02 03:04:05, run 20270101_b); 55 (2026-01-02 03:04:05, run 20260101_a);"
            " 1299 (2026-01-02 03:04:05, run 20260101_a) and 1 older ones",
        ),
    ],
)
def test_one_that_is_not_there_or_not_alone(text: str, message: str, hint: str) -> None:
    with pytest.raises(NoSuchSnapshot) as caught:
        find_snapshot(PAST, text, T)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_table_that_was_never_written() -> None:
    with pytest.raises(NoSuchSnapshot, match="has no snapshot"):
        find_snapshot({}, "1", T)
