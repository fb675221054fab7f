"""A bounded replay whose build is killed: the next run covers the window that it would have covered."""

from __future__ import annotations

import pytest

from sqb.build.history.record import Recorder
from sqb.errors.base import SqbError
from support.sandbox import Sandbox

MODEL = "-- @incremental: ts\n-- @replay_on_change: bounded-2d\nSELECT id, ts, v FROM raw.events"
EVENTS = "SELECT CAST(id AS INT) AS id, timestamp_seconds(id * 43200) AS ts, CAST(id AS INT) AS v FROM range"


class Killed(SqbError):
    """The end of a build, of which nothing is written down."""

    code = "SQB-TEST"


def die(step: str, node: str) -> None:
    if step == "before publish" and node == "m.killed":
        raise Killed("killed")


def test_its_window_is_not_counted_from_the_end_of_a_later_day(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql(f"CREATE TABLE raw.events AS {EVENTS}(1, 21)")
    for name in ("steady", "killed"):
        sandbox.write(f"models/m/{name}.sql", MODEL)
    assert sandbox.build().ok
    for name in ("steady", "killed"):
        sandbox.edit(f"models/m/{name}.sql", ", v FROM", ", v * 1000 AS v FROM")
    with monkeypatch.context() as dead:
        dead.setattr(Recorder, "write_history", lambda *_, **__: None)
        sandbox.build(announce=die)
    assert max(sandbox.rows("m.killed"))[2] == 20 and max(sandbox.rows("m.steady"))[2] == 20_000
    sandbox.sql(f"INSERT INTO raw.events {EVENTS}(21, 61)")
    assert sandbox.build().ok
    assert sandbox.rows("m.killed") == sandbox.rows("m.steady")
    assert any("failed or was killed" in notice for notice in sandbox.notices), sandbox.notices
    # It is made up for.
    sandbox.sql(f"INSERT INTO raw.events {EVENTS}(61, 63)")
    sandbox.notices.clear()
    assert sandbox.build().ok and not sandbox.notices
    assert sandbox.rows("m.killed") == sandbox.rows("m.steady")
