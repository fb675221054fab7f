"""Promotion, rollback and comparison of environments on real tables: what readers see, to the row."""

from __future__ import annotations

from typing import Any

from sqb.environments.diff import build_question, compare_environments
from sqb.environments.model import Status
from sqb.environments.promotion.promote import promote
from sqb.environments.promotion.rollback import roll_back
from sqb.inspect.diff import compute_diff
from sqb.operations.inspect.diff import EnvironmentNodeDiff
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
    assert sandbox.shown("dev") == first and store.read_environments()["dev"].status is Status.FINALIZED
    roll_back(workspace, store, lake, "dev", "3")
    assert sandbox.shown("dev") == newer
    assert ran(sandbox) == [] and sandbox.shown("dev") == newer


def _review(sandbox: Sandbox) -> None:
    """What the change does, down to the rows, before it is promoted."""
    workspace = open_workspace(sandbox.folder)
    whole = compare_environments(workspace, sandbox.store(), sandbox.lake(), "pr", "dev")
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
    differences = compare_environments(workspace, sandbox.store(), sandbox.lake(), "pr", "dev", name)
    session = sandbox._sessions.take()
    try:
        rows = compute_diff(build_question(workspace, differences, differences.differences[0]), session, 10, workspace)
    finally:
        sandbox._sessions.give_back(session)
    return EnvironmentNodeDiff(differences, differences.differences[0], rows).to_data()


LOOKUPS = {
    "clean": "SELECT id, upper(name) AS name FROM raw.customers",
    "log": "-- @kind: append\n-- @lookups: raw.customers\n"
    "SELECT o.id, o.n, c.name FROM raw.x o LEFT JOIN raw.customers c ON o.day = c.id",
    "late_log": "-- @kind: append\n-- @lookups: clean\n"
    "SELECT o.id, o.n, c.name FROM raw.x o JOIN clean c ON o.day = c.id",
    "total": "SELECT sum(n) AS n, count(*) AS many FROM log",
}


def test_a_log_with_lookups_is_promoted_with_the_names_of_then(sandbox: Sandbox) -> None:
    """Renamed customers add nothing, in no environment; an order that is new has the name that is new."""
    write_project(sandbox, LOOKUPS)
    sandbox.sql("CREATE TABLE raw.customers AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name)")
    ran(sandbox)
    first = sandbox.shown("dev")
    assert first["log"] == [(1, 10, "a"), (2, 20, "a"), (3, 60, "b"), (4, -1, "b")]
    # In another environment the definition of a lookup changes, then customers are renamed, then there is an order.
    sandbox.edit("models/clean.sql", "upper(name)", "concat(name, '!')")
    assert "clean" in ran(sandbox, "pr")
    assert {n: sandbox.shown("pr")[n] for n in ("log", "late_log", "total")} == {
        n: first[n] for n in ("log", "late_log", "total")
    }
    sandbox.sql("UPDATE raw.customers SET name = 'z' WHERE id = 1")
    ran(sandbox, "pr")
    assert {n: sandbox.shown("pr")[n] for n in ("log", "late_log", "total")} == {
        n: first[n] for n in ("log", "late_log", "total")
    }
    # A row that is new twice, a customer that comes late, and one that nobody knows.
    sandbox.sql("INSERT INTO raw.x VALUES (5, 1, 5), (5, 1, 5), (6, 9, 6), (7, 8, 7)")
    sandbox.sql("INSERT INTO raw.customers VALUES (9, 'nine')")
    ran(sandbox, "pr")
    reviewed = sandbox.shown("pr")
    assert reviewed["log"] == [*first["log"], (5, 5, "z"), (5, 5, "z"), (6, 6, "nine"), (7, 7, None)]
    assert reviewed["late_log"] == [*first["late_log"], (5, 5, "z!"), (5, 5, "z!"), (6, 6, "nine!")]
    assert reviewed["total"] == [(112, 8)] and sandbox.shown("dev") == first

    workspace = open_workspace(sandbox.folder)
    done = promote(workspace, sandbox.store(), sandbox.lake(), "pr", "dev", lambda mine, theirs: None)
    # Versions are promoted; the rows that came to tables of the same version are shown by the next build, without work.
    assert done.promotion.promoted == ("default.clean", "default.late_log")
    assert sandbox.shown("dev") == {**first, **{n: reviewed[n] for n in ("clean", "late_log")}}
    assert ran(sandbox) == ran(sandbox, "pr") == [] and sandbox.shown("dev") == reviewed
    # It goes on from there: a rename alone is nothing, a late customer gets the order that waits for it.
    sandbox.sql("UPDATE raw.customers SET name = 'y' WHERE id = 1")
    sandbox.sql("INSERT INTO raw.customers VALUES (8, 'eight')")
    ran(sandbox)
    now = sandbox.shown("dev")
    assert now["log"] == reviewed["log"] and now["total"] == reviewed["total"]
    assert now["late_log"] == [*reviewed["late_log"], (7, 7, "eight!")]
    assert sandbox.shown("pr") == reviewed
