"""What goes wrong while changes are followed: the full way is taken, with its reason, and no history is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.build.incremental.fallback import NO_FALLBACK, explain_fallback
from sqb.build.incremental.refresh import IncrementalRefresh
from sqb.build.kinds import append
from sqb.errors.lake import LakeError
from sqb.sql.delta.cache import ClassificationCache
from support.sandbox import Sandbox

KINDS = {
    "t": "-- @kind: table\nSELECT k, count(*) AS n FROM raw.t GROUP BY k",
    "m": "-- @kind: merge\n-- @unique_key: k\nSELECT k, max(v) AS v FROM raw.t GROUP BY k",
    "g": "-- @kind: tracked\n-- @group_key: k\nSELECT k, v FROM raw.t",
    "a": "-- @kind: append\nSELECT k, v FROM raw.t",
    "h": "-- @kind: scd2\n-- @unique_key: k\nSELECT k, max(v) AS v FROM raw.t GROUP BY k",
}


def _overflows(*_: object) -> None:
    raise OverflowError("date value out of range")


@pytest.fixture
def shop(sandbox: Sandbox) -> Sandbox:
    sandbox.sql("CREATE NAMESPACE raw")
    sandbox.sql("CREATE TABLE raw.t (k INT, v INT)")
    sandbox.sql("INSERT INTO raw.t VALUES (1, 1), (2, 2)")
    for name, text in KINDS.items():
        sandbox.write(f"models/m/{name}.sql", text.replace("\n", "\n-- @refresh: incremental\n", 1))
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.t VALUES (2, 3), (3, 3)")
    sandbox.sql("DELETE FROM raw.t WHERE k = 1")
    return sandbox


def test_the_full_way_is_taken_and_nothing_is_lost(shop: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NO_FALLBACK)
    why = "its changes could not be followed (OverflowError: date value out of range)"
    with monkeypatch.context() as planning:
        planning.setattr(ClassificationCache, "classify", _overflows)
        for planned in shop.plan().nodes:
            assert planned.incremental is not None
            assert (planned.run_type, planned.incremental["why"]) == ("full", why)
    monkeypatch.setattr(IncrementalRefresh, "find_affected_keys", _overflows)
    result = shop.build()
    assert result.ok
    for node in result.nodes:
        did = "compared in full" if node.planned.kind in ("append", "scd2") else "rebuilt"
        assert node.run_type == "full" and node.detail.endswith(f"; {did}: {why}"), node.detail
    assert shop.rows("m.t") == [(2, 2), (3, 1)] and shop.rows("m.m") == [(2, 3), (3, 3)]
    assert shop.rows("m.g") == [(2, 2), (2, 3), (3, 3)]
    assert shop.rows("m.a") == [(1, 1), (2, 2), (2, 3), (3, 3)]
    history = [row[:2] + row[4:] for row in shop.rows("m.h")]
    assert history == [(1, 1, False), (2, 2, False), (2, 3, True), (3, 3, True)]
    assert all(n.action == "skip" for n in shop.plan().nodes)
    # A log that cannot be compared with a version of before gets what it lacks.
    monkeypatch.setattr(append, "compute_full_change", _overflows)
    shop.sql("INSERT INTO raw.t VALUES (3, 3), (4, 4)")
    assert shop.build(select=["m.a"]).ok
    assert shop.rows("m.a") == [(1, 1), (2, 2), (2, 3), (3, 3), (3, 3), (4, 4)]


def test_in_this_suite_it_is_a_failure(shop: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IncrementalRefresh, "find_affected_keys", _overflows)
    result = shop.build(select=["m.t"])
    (failed,) = (n for n in result.nodes if n.status == "failed")
    assert failed.error is not None and "date value out of range" in failed.error.message
    monkeypatch.undo()
    assert shop.build().ok


@pytest.mark.parametrize(
    "make",
    [
        lambda: LakeError("the table has moved"),
        lambda: OSError(28, "No space left on device"),
        lambda: ConnectionResetError("gone"),
        lambda: MemoryError(),
    ],
)
def test_what_would_meet_the_full_way_too_stays_an_error(
    make: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NO_FALLBACK)
    error = make()
    with pytest.raises(type(error)):
        explain_fallback(error)


def test_days_that_python_does_not_have(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.sql("CREATE NAMESPACE raw")
    far = "CAST('+12345-06-07' AS DATE)"
    sandbox.sql("CREATE TABLE raw.t (d DATE, v INT)")
    sandbox.sql("CREATE TABLE raw.p (d DATE, v INT) PARTITIONED BY (d)")
    for table in ("t", "p"):
        sandbox.sql(f"INSERT INTO raw.{table} SELECT {far}, 1 UNION ALL SELECT DATE '2026-01-01', 2")
        header = "-- @refresh: incremental\n"
        query = f"SELECT d, sum(v) AS v FROM raw.{table} GROUP BY d"
        sandbox.write(f"models/m/{table}.sql", f"{header}-- @partitioned_by: d\n{query}")
        sandbox.write(f"models/m/{table}_log.sql", f"{header}-- @kind: append\n{query}")
    assert sandbox.build().ok
    for table in ("t", "p"):
        sandbox.sql(f"INSERT INTO raw.{table} SELECT {far}, 4 UNION ALL SELECT DATE '1582-10-10', 3")
    result = sandbox.build()
    assert result.ok and {n.run_type for n in result.nodes} == {"incremental"}
    for table in ("t", "p"):
        rows = sandbox.sql(f"SELECT string(d), v FROM m.{table} ORDER BY v")
        assert [tuple(r) for r in rows] == [("2026-01-01", 2), ("1582-10-10", 3), ("+12345-06-07", 5)]
        assert sandbox.sql(f"SELECT count(*) FROM m.{table}_log")[0][0] == 4
