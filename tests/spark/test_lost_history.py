"""What a plan says of a full replay that would lose rows, from the bounds of data files alone."""

from __future__ import annotations

from pathlib import Path

from sqb.build.kinds.cursor_origin import add_lost_history_notices
from support.sandbox import Sandbox, SandboxMaker


def notices(sandbox: Sandbox, **options: object) -> dict[str, tuple[str, ...]]:
    workspace, lake, seen, plan = sandbox.planned(**options)
    shown = add_lost_history_notices(plan, workspace.project, lake, seen)
    return {n.name: n.notices for n in shown.nodes if n.action == "run"}


def test_the_plan_says_where_sources_begin_later_than_the_table(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    sandbox = new_sandbox(tmp_path / "project")
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE TABLE raw.e AS SELECT id, date_add(DATE '2024-01-01', CAST(id AS INT)) AS d FROM range(0, 10)")
    sandbox.write("models/m/v.sql", "-- @kind: view\nSELECT * FROM raw.e")
    sandbox.write("models/m/plain.sql", "-- @incremental: day\nSELECT x.d AS day, id FROM (SELECT * FROM v) x")
    sandbox.write("models/m/made.sql", "-- @incremental: day\nSELECT date_add(d, 1) AS day, id FROM raw.e")
    assert sandbox.build().ok
    assert notices(sandbox, full_refresh=True)["m.plain"] == ()
    sandbox.sql("DELETE FROM raw.e WHERE d < DATE '2024-01-04'")
    assert notices(sandbox, full_refresh=True) == {
        "m.v": (),
        "m.plain": (
            "the table begins at 2024-01-01, and raw.e only at 2024-01-04: "
            "a full replay that loses rows is refused without --allow-data-loss",
        ),
        # Of a cursor that is computed, bounds tell nothing.
        "m.made": (),
    }
    # What goes forward loses nothing.
    assert not any(notices(sandbox).values())
    sandbox.edit("models/m/plain.sql", "-- @incremental: day", "-- @incremental: day\n-- @replay_on_change: full")
    sandbox.edit("models/m/v.sql", "raw.e", "raw.e WHERE id > 0")
    assert "begins at 2024-01-01" in notices(sandbox)["m.plain"][0]
