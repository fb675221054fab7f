"""Promotion, rollback and comparison of environments on real tables: what readers see, to the row."""

from __future__ import annotations

from typing import Any

from sqb.build.diff import answer
from sqb.console.environment_diff import model_diff_data
from sqb.environments.diffing import between_environments, compare
from sqb.environments.promoting import promote
from sqb.environments.rolling_back import roll_back
from sqb.environments.values import Status
from sqb.workspace import open_workspace
from support.environments import ran, write_project
from support.sandbox import Sandbox

MODELS = {
    "stg": "SELECT id, day, n FROM raw.x WHERE n > 0",
    "per_day": "-- @kind: merge\n-- @unique_key: day\nSELECT day, sum(n) AS n FROM stg GROUP BY day",
    "log": "-- @kind: append\nSELECT id, n FROM stg",
    "top": "-- @kind: view\nSELECT day, n FROM per_day WHERE n > 10",
}


def test_a_change_on_its_way_to_readers_and_back(sandbox: Sandbox) -> None:
    write_project(sandbox, MODELS)
    ran(sandbox)
    first = sandbox.shown("dev")
    sandbox.edit("models/per_day.sql", "sum(n) AS n", "sum(n) * 2 AS n, count(*) AS many")
    sandbox.edit("models/stg.sql", "n > 0", "n > 10")
    assert ran(sandbox, "pr") == ["log", "per_day", "stg", "top"]
    reviewed = sandbox.shown("pr")
    _review(sandbox)

    # Readers get exactly what was reviewed, and nothing is left to build.
    workspace = open_workspace(sandbox.folder)
    store, lake = sandbox.store(), sandbox.lake()
    done = promote(workspace, store, lake, "pr", "dev", lambda mine, theirs: None)
    assert done.promotion.promoted == ("default.log", "default.per_day", "default.stg", "default.top")
    assert done.views == 4 and sandbox.shown("dev") == reviewed
    assert ran(sandbox) == [] and sandbox.shown("dev") == reviewed

    # New rows come to the promoted tables, and with a rollback readers have those that they had.
    sandbox.sql("INSERT INTO raw.x VALUES (5, 1, 100)")
    assert ran(sandbox) == ["log", "per_day", "stg"]
    newer = sandbox.shown("dev")
    assert newer != reviewed and sandbox.shown("pr") == reviewed
    assert {s.what for s in roll_back(workspace, store, lake, "dev").steps} == {"data"}
    assert sandbox.shown("dev") == reviewed
    roll_back(workspace, store, lake, "dev")
    assert sandbox.shown("dev") == first and store.environments()["dev"].status is Status.FINALIZED
    roll_back(workspace, store, lake, "dev", "3")
    assert sandbox.shown("dev") == newer
    assert ran(sandbox) == [] and sandbox.shown("dev") == newer


def _review(sandbox: Sandbox) -> None:
    """What the change does, down to the rows, before it is promoted."""
    workspace = open_workspace(sandbox.folder)
    whole = compare(workspace, sandbox.store(), sandbox.lake(), "pr", "dev")
    assert [(d.name, d.change, str(d.reason)) for d in whole.differences] == [
        ("default.stg", "changed", "Query changed"),
        ("default.log", "changed", "Upstream changed"),
        ("default.per_day", "changed", "Query changed"),
        ("default.top", "changed", "Upstream changed"),
    ]
    per_day = _compared(sandbox, "per_day")
    assert per_day["columns"]["added"] == [{"name": "many", "type": "bigint"}]
    assert per_day["rows"] == {"added": 0, "removed": 0, "changed": 2, "unchanged": 0, "by_column": {"n": 2}}
    assert per_day["key"] == ["day"] and (per_day["before"]["rows"], per_day["after"]["rows"]) == (2, 2)
    assert per_day["samples"]["changed"][0] == {"key": {"day": 1}, "changes": {"n": {"before": 30, "after": 40}}}
    # A view is compared by the rows that its readers see.
    assert _compared(sandbox, "top")["rows"]["added"] == 2


def _compared(sandbox: Sandbox, name: str) -> dict[str, Any]:
    workspace = open_workspace(sandbox.folder)
    found = compare(workspace, sandbox.store(), sandbox.lake(), "pr", "dev", name)
    session = sandbox._sessions.take()
    try:
        rows = answer(between_environments(workspace, found, found.differences[0]), session, 10, workspace)
    finally:
        sandbox._sessions.give_back(session)
    return model_diff_data(found, found.differences[0], rows)
