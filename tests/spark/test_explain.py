"""What a plan says of data that really changed, and one node in full, on tables that Spark wrote."""

from __future__ import annotations

import json
import os

from sqb.inspect.explain import Explanation, explain
from sqb.operations.environment import NoEnvironment
from sqb.operations.inspect.definition_diffs import read_definition_diffs
from support.commands import run_here
from support.sandbox import Sandbox


def explained(sandbox: Sandbox, name: str) -> Explanation:
    workspace, lake, seen, plan = sandbox.planned()
    diffs = read_definition_diffs(workspace, NoEnvironment(workspace, lake), plan)
    return explain(name, plan, workspace, lake, seen, diffs.get(name, ""))


def changes(sandbox: Sandbox) -> dict[str, list[tuple[object, ...]]]:
    return {
        n.name: [(c.source, c.rows_added, c.rows_removed, c.estimated) for c in n.changes]
        for n in sandbox.plan().nodes
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
    explanation = explained(sandbox, "s.a")
    (one,) = explanation.inputs
    assert (one.why, [str(c) for c in one.columns]) == ("other rows", ["w int → bigint", "x date added"])
    assert explanation.work is not None and (
        explanation.work.kind,
        explanation.work.keys,
        str(explanation.work.at),
    ) == (
        "groups",
        ("id",),
        "models/s/a.sql:2:8",
    )
    assert explanation.work.verdict == "the columns of raw.r changed"
    below = explained(sandbox, "s.b")
    assert [(r.name, r.reason) for r in below.planned.root] == [("raw.r", "Source changed")]
    assert [(i.name, i.why) for i in below.inputs] == [
        ("s.a", "the same snapshot, and it runs before"),
        ("s.v", "the same definition, and it runs before"),
    ]
    assert below.work is not None and (below.work.kind, below.work.why) == ("opaque", "LIMIT")
    assert str(below.work.at) == "models/s/b.sql:2:1"

    sandbox.edit("models/s/a.sql", "-- @constraint", "-- @sorted_by: id\n-- @constraint")
    sandbox.edit("models/s/a.sql", "count(*)", "max(w)")
    edited = explained(sandbox, "s.a")
    assert [(s.what, s.stored, s.now) for s in edited.settings] == [("sorted_by", "", '["id"]')]
    assert "-SELECT id, count(*) AS n FROM raw.r GROUP BY id" in edited.diff
    json.dumps(edited.to_data())


def test_a_build_does_what_the_plan_says_of_how_nodes_run(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE TABLE raw.o (id INT, cid INT)")
    sandbox.sql("CREATE TABLE raw.c (id INT, name STRING)")
    sandbox.sql("INSERT INTO raw.o VALUES (1, 1), (2, 2)")
    sandbox.sql("INSERT INTO raw.c VALUES (1, 'a'), (2, 'b')")
    queries = {
        "plain": "SELECT id, name FROM raw.c",
        "equal": "SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid = c.id",
        "less": "SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid < c.id",
        "few": "SELECT id FROM raw.c ORDER BY id DESC LIMIT 1",
        "costly": "SELECT id FROM raw.c",
    }
    for name, query in queries.items():
        refresh = "auto" if name == "costly" else "incremental"
        sandbox.write(f"models/s/{name}.sql", f"-- @refresh: {refresh}\n{query}")
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.c VALUES (3, 'c')")

    code, out, err = run_here(("plan", "--json"), sandbox.folder, dict(os.environ))
    assert code == 0, err
    planned = {n["name"]: (n["run_type"], n["incremental"]["why"]) for n in json.loads(out)["nodes"]}
    full = {name: why for name, (run_type, why) in planned.items() if run_type == "full"}
    assert full.keys() == {"s.few", "s.costly"}
    # By something other than equal columns no key restricts raw.c, but the rows that a changed one matches are touched.
    assert planned["s.less"] == ("incremental", "only changed rows flow through")
    assert "LIMIT" in full["s.few"] and "a rebuild is faster" in full["s.costly"]
    result = sandbox.build()
    assert {n.planned.name: n.run_type for n in result.nodes} == {
        name: messages[0] for name, messages in planned.items()
    }
    done = {n.planned.name: n.detail.partition("; rebuilt: ")[2] for n in result.nodes if n.run_type == "full"}
    # The obstacle is the same one; a build says of a query that has no class that it is the query's.
    assert done == {**full, "s.few": f"the query is opaque: {full['s.few']}"}


def test_a_refresh_by_keys_names_them_and_draws_no_figures_of_groups(sandbox: Sandbox) -> None:
    """A key that splits all that changed is followed without figures, whatever the operators would read."""
    sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nmin_rows = 0\n')
    sandbox.sql("CREATE TABLE raw.f (store INT, day DATE, amount INT)")
    sandbox.sql("CREATE TABLE raw.s (store INT, region STRING)")
    sandbox.sql("INSERT INTO raw.f SELECT id % 2, DATE '2026-01-01' + CAST(id % 3 AS INT), id FROM range(12)")
    sandbox.sql("INSERT INTO raw.s VALUES (0, 'east'), (1, 'west')")
    sandbox.write(
        "models/s/sales.sql",
        "SELECT s.region, f.day, count(*) AS n, sum(f.amount) AS amount\n"
        "FROM raw.f AS f JOIN raw.s AS s ON s.store = f.store GROUP BY s.region, f.day",
    )
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.f VALUES (0, DATE '2026-02-01', 1)")
    work = explained(sandbox, "s.sales").work
    assert work is not None
    assert work.verdict == "following the changes pays: only what has a touched day is evaluated again"
    assert work.costs == ()
    grouping, *tables = work.operators
    assert (grouping.says, grouping.rows_read) == ("the groups of changed rows are evaluated again", 0)
    assert [(line.what, line.says) for line in tables] == [
        ("raw.f", "its changed rows are read"),
        ("raw.s", "unchanged"),
    ]
    (node,) = sandbox.build().nodes
    assert (node.run_type, node.rows) == ("incremental", 1)
