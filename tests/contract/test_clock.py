"""Commits that follow each other on machines whose clocks do not agree: Iceberg refuses those that go back in time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from contract.lakes import ORDERS, SUMMARY, SqliteProbe, state, write
from sqb.names import Relation
from sqb.operations.plan import check_clocks

COPY = Relation("other", "orders")


def times(document: dict[str, Any]) -> list[list[int]]:
    """The times of what Iceberg wants in order."""
    last = document["last-updated-ms"]
    logs = ("snapshot-log", "metadata-log")
    return [[*(entry["timestamp-ms"] for entry in document.get(log) or ()), last] for log in logs]


def documents(probe: SqliteProbe, relation: Relation) -> dict[str, Any]:
    return probe.lake.load_document(probe.lake.list_pointers()[relation])


@pytest.fixture
def from_the_future(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> SqliteProbe:
    """A lake with a table that a machine wrote whose clock is an hour ahead."""
    now = time.time
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + 3600)
        write(sqlite, [[1], ["a"]])
    return sqlite


def test_a_slow_clock_says_the_time_of_the_commit_before(from_the_future: SqliteProbe) -> None:
    probe = from_the_future
    first = documents(probe, ORDERS)["last-updated-ms"]
    assert first > time.time() * 1000 + 3_000_000
    write(probe, [[2], ["b"]], base=state(probe).base)
    probe.lake.touch(ORDERS, state(probe).base, {**SUMMARY, "sqb.run_id": "r3"})
    probe.lake.set_properties(ORDERS, state(probe).base, {"sqb.checks": "x"})
    for item in times(documents(probe, ORDERS)):
        assert item == sorted(item)
        assert item[-1] == first
    assert probe.rows(ORDERS) == [(2, "b")]


def test_clones_and_those_that_hold_them(from_the_future: SqliteProbe) -> None:
    probe = from_the_future
    snapshot = state(probe).snapshot_id
    assert snapshot is not None
    probe.lake.clone(ORDERS, snapshot, COPY, SUMMARY, None, "r2")
    for item in (*times(documents(probe, ORDERS)), *times(documents(probe, COPY))):
        assert item == sorted(item)


def test_times_of_old_commits_stay(sqlite: SqliteProbe) -> None:
    write(sqlite, [[1], ["a"]])
    before = documents(sqlite, ORDERS)["snapshot-log"]
    sqlite.lake.set_properties(ORDERS, state(sqlite).base, {"sqb.checks": "x"})
    assert documents(sqlite, ORDERS)["snapshot-log"] == before


def test_a_plan_warns_of_it(from_the_future: SqliteProbe) -> None:
    by_name = {ORDERS: state(from_the_future)}
    (warning,) = check_clocks(by_name, time.time())
    assert warning.startswith("shop.orders was written 59 minutes from now")
    assert check_clocks(by_name, time.time() + 3600) == []
