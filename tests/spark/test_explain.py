"""What a plan says of data that really changed, and one node in full, on tables that Spark wrote."""

from __future__ import annotations

import json

from sqb.build.data_changes import with_changes
from sqb.build.explain import Explanation, explain
from sqb.cli.build import diffs_of
from support.sandbox import Sandbox


def explained(sandbox: Sandbox, name: str) -> Explanation:
    workspace, lake, seen, plan = sandbox.planned()
    return explain(name, plan, workspace, lake, seen, diffs_of(workspace, lake, plan).get(name, ""))


def changes(sandbox: Sandbox) -> dict[str, list[tuple[object, ...]]]:
    workspace, lake, seen, plan = sandbox.planned()
    told = with_changes(plan, workspace.project, lake, seen)
    return {
        n.name: [(c.source, c.rows_added, c.rows_removed, c.estimated) for c in n.changes]
        for n in told.nodes
        if n.changes
    }


def test_plans_of_changed_data_are_explained(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE TABLE raw.r (id BIGINT, v STRING, w INT) TBLPROPERTIES ('write.delete.mode'='copy-on-write')")
    sandbox.sql("INSERT INTO raw.r SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 1), (2, 'b', 1)")
    sandbox.write("models/s/a.sql", "-- @constraint: not_null(id)\nSELECT id, count(*) AS n FROM raw.r GROUP BY id")
    sandbox.write("models/s/v.sql", "-- @kind: view\nSELECT id FROM a")
    sandbox.write("models/s/b.sql", "SELECT id FROM v\nLIMIT 5")
    assert sandbox.build().ok and changes(sandbox) == {}
    same = explained(sandbox, "s.a")
    assert (same.planned.action, [h.same for h in same.hashes], [i.why for i in same.inputs]) == (
        "skip",
        [True, True, True],
        ["the same snapshot"],
    )
    assert same.checks == ("constraint not_null(id)",) and same.checks_passed
    assert same.last_run is not None and (same.last_run["rows"], same.last_run["status"]) == (2, "ok")

    sandbox.sql("INSERT INTO raw.r VALUES (3, 'c', 1)")
    assert changes(sandbox) == {"s.a": [("raw.r", 1, 0, False)]}
    sandbox.sql("DELETE FROM raw.r WHERE id = 2")
    assert changes(sandbox) == {"s.a": [("raw.r", 2, 2, True)]}
    sandbox.sql("ALTER TABLE raw.r ALTER COLUMN w TYPE BIGINT")
    sandbox.sql("ALTER TABLE raw.r ADD COLUMN x DATE")
    found = explained(sandbox, "s.a")
    (one,) = found.inputs
    assert (one.why, [str(c) for c in one.columns]) == ("other rows", ["w int → bigint", "x date added"])
    assert found.work is not None and (found.work.kind, found.work.keys, str(found.work.at)) == (
        "keyed",
        ("id",),
        "models/s/a.sql:2:8",
    )
    assert found.work.verdict == "the columns of raw.r changed"
    below = explained(sandbox, "s.b")
    assert [(r.name, r.reason) for r in below.planned.root] == [("raw.r", "Source changed")]
    assert [(i.name, i.why) for i in below.inputs] == [
        ("s.a", "the same snapshot, and it runs before"),
        ("s.v", "the same definition, and it runs before"),
    ]
    assert below.work is not None and (below.work.kind, below.work.why) == ("opaque", "LIMIT")
    assert str(below.work.at) == "models/s/b.sql:1:8"

    sandbox.edit("models/s/a.sql", "-- @constraint", "-- @sorted_by: id\n-- @constraint")
    sandbox.edit("models/s/a.sql", "count(*)", "max(w)")
    edited = explained(sandbox, "s.a")
    assert [(s.what, s.stored, s.now) for s in edited.settings] == [("sorted_by", "", '["id"]')]
    assert "-SELECT id, count(*) AS n FROM raw.r GROUP BY id" in edited.diff
    json.dumps(edited.to_data())
