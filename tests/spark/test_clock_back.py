"""A build on a machine whose clock is behind that of the one before."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from sqb.build import scheduler
from sqb.build.history import record
from sqb.build.history.recovery import find_unrecorded
from sqb.lake.commit import snapshot
from sqb.lake.commit.clock import commit_ms
from sqb.lake.port import Run
from support.sandbox import SandboxMaker

AHEAD = timedelta(hours=2)
MILLISECOND = timedelta(milliseconds=1)


class Ahead(datetime):
    """A clock that is two hours ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + AHEAD


def test_a_history_never_goes_back_and_no_run_counts_as_killed(
    new_sandbox: SandboxMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = new_sandbox(tmp_path / "project")
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE TABLE raw.a AS SELECT 1 AS id, 'x' AS v UNION ALL SELECT 2, 'x'")
    sandbox.write("models/m/past.sql", "-- @kind: scd2\n-- @unique_key: id\nSELECT id, v FROM raw.a")
    with monkeypatch.context() as ahead:
        ahead.setattr(scheduler, "datetime", Ahead)
        ahead.setattr(record, "datetime", Ahead)
        # Of commits without Spark, whose clock is the machine's.
        ahead.setattr(snapshot, "commit_ms", lambda after=None: commit_ms(after) + AHEAD // MILLISECOND)
        assert sandbox.build().ok
        assert not any("clock" in notice for notice in sandbox.notices)
    sandbox.sql("UPDATE raw.a SET v = 'y' WHERE id = 1")
    second = sandbox.build()
    assert second.ok and any("the clock of this machine says" in notice for notice in sandbox.notices)
    sandbox.sql("DELETE FROM raw.a WHERE id = 1")
    third = sandbox.build()
    assert third.ok
    assert not sandbox.sql("SELECT * FROM m.past WHERE valid_to < valid_from")
    overlaps = "SELECT * FROM m.past a JOIN m.past b ON a.id = b.id AND a.valid_from < b.valid_from"
    assert not sandbox.sql(f"{overlaps} AND (a.valid_to IS NULL OR a.valid_to > b.valid_from)")
    # Its history is the latest, so that a trace of the run is not taken for that of one that was killed.
    workspace, lake, seen, _ = sandbox.planned()
    assert {row.run_id for row in lake.state.read_fingerprints(["m"]).values()} == {third.run_id}
    owner = f"{workspace.root} {workspace.project.target}"
    trace = Run(third.run_id, False, owner, 0.0, False)
    monkeypatch.setattr(type(lake), "list_runs", lambda self: {third.run_id: trace})
    assert find_unrecorded(workspace, lake, seen.states).text == ""
