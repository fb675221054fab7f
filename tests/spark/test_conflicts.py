"""Somebody else writes right before a build publishes: nothing is overwritten, and the next build goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqb.build.result import BuildResult
from support.sandbox import Sandbox, names_by_status

MODELS = {
    "t_table": "SELECT id, n FROM raw.x",
    "t_merge": "-- @kind: merge\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_append": "-- @kind: append\nSELECT id, n FROM raw.x",
    "t_scd2": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_tracked": "-- @kind: tracked\n-- @group_key: id\nSELECT id, n FROM raw.x",
    "t_view": "-- @kind: view\nSELECT id, n FROM raw.x",
}
NODES = ["seeds.t_seed", *(f"s.{name}" for name in MODELS)]
TABLES = [name for name in NODES if name != "s.t_view"]


def write_project(sandbox: Sandbox, *, seed: str = "id,n\n1,10\n2,20\n", below: bool = True) -> None:
    for name, sql in MODELS.items():
        sandbox.write(f"models/s/{name}.sql", sql)
        if below:
            sandbox.write(f"models/below/of_{name}.sql", f"SELECT count(*) AS n FROM s.{name}")
    sandbox.write("seeds/t_seed.csv", seed)
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE OR REPLACE TABLE raw.x AS SELECT * FROM VALUES (1, 10), (2, 20) AS t(id, n)")


def build_while(sandbox: Sandbox, statements: Mapping[str, str]) -> BuildResult:
    """A build in which somebody runs a statement right before a node is published."""

    def announce(step: str, node: str) -> None:
        if step == "before publish" and node in statements:
            sandbox.sql(statements[node])

    return sandbox.build(announce=announce)


def assert_refused(sandbox: Sandbox, result: BuildResult, nodes: list[str]) -> None:
    assert names_by_status(result).get("failed") == sorted(nodes)
    errors = {n.planned.name: n.error for n in result.nodes if n.error is not None}
    for name in nodes:
        error = errors[name]
        assert error is not None and error.code == "SQB-L007", error
        assert "nothing was overwritten" in error.message and "run the build again" in (error.hint or "")
    assert sandbox.stages() == []
    folder = sandbox.folder / "lake" / "data" / "_sqlbuild_stage"
    assert [p for p in folder.rglob("*") if p.is_file() and "_runs" not in p.parts] == []
    assert sandbox.lake().list_runs() == {}


def data_files(sandbox: Sandbox) -> set[Path]:
    return set((sandbox.folder / "lake" / "data").glob("s*/t_*/data/20*/**/*.parquet"))


def test_a_second_writer_of_every_kind(sandbox: Sandbox) -> None:
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.write("seeds/t_seed.csv", "id,n\n1,11\n2,20\n3,30\n")
    sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")
    sandbox.sql("UPDATE raw.x SET n = 11 WHERE id = 1")
    sandbox.edit("models/s/t_view.sql", "id, n", "id, n + 1 AS n")
    before = data_files(sandbox)
    statements = {name: f"DELETE FROM {name} WHERE id = 2" for name in TABLES}
    statements["s.t_view"] = "CREATE OR REPLACE VIEW s.t_view AS SELECT 7 AS seven"
    result = build_while(sandbox, statements)
    assert_refused(sandbox, result, NODES)
    assert {f"below.of_{name}" for name in MODELS} == set(names_by_status(result)["blocked"])
    assert data_files(sandbox) == before
    for name in TABLES:
        assert [row[:2] for row in sandbox.rows(name)] == [(1, 10)]
    assert sandbox.rows("s.t_view") == [(7,)]
    assert sandbox.build().ok
    for name in TABLES:
        rows = [row[:2] for row in sandbox.rows(name) if name != "s.t_scd2" or row[4]]
        remaining = [(1, 10)] if name == "s.t_append" else []
        assert rows == sorted([*remaining, (1, 11), (2, 20), (3, 30)])
    assert sandbox.rows("s.t_view") == [(1, 12), (2, 21), (3, 31)]
    assert sandbox.plan().nothing_to_do


def test_a_second_writer_when_the_rows_stay_the_same(sandbox: Sandbox) -> None:
    """Nothing but a new identity is committed then, and that is refused too."""
    write_project(sandbox, below=False)
    assert sandbox.build().ok
    sandbox.sql("CREATE OR REPLACE TABLE raw.x AS SELECT * FROM VALUES (2, 20), (1, 10) AS t(id, n)")
    nodes = [name for name in TABLES if name != "seeds.t_seed"]
    result = build_while(sandbox, {name: f"DELETE FROM {name} WHERE id = 2" for name in nodes})
    assert_refused(sandbox, result, nodes)
    for name in nodes:
        assert [row[:2] for row in sandbox.rows(name)] == [(1, 10)]
    assert sandbox.build().ok
    for name in nodes:
        assert [row[:2] for row in sandbox.rows(name)] == [(1, 10), (2, 20)]


def test_somebody_is_quicker_in_the_first_build(sandbox: Sandbox) -> None:
    write_project(sandbox, below=False)
    statements = {name: f"CREATE TABLE {name} AS SELECT 'mine' AS words" for name in TABLES}
    statements["s.t_view"] = "CREATE VIEW s.t_view AS SELECT 'mine' AS words"
    result = build_while(sandbox, statements)
    assert_refused(sandbox, result, NODES)
    assert data_files(sandbox) == set()
    for name in NODES:
        assert sandbox.rows(name) == [("mine",)]
    plan = sandbox.plan()
    assert {n.name: str(n.reason) for n in plan.nodes} == dict.fromkeys(NODES, "Relation not made by sqb")
    forced = sandbox.build(force=True)
    assert forced.ok, [str(n.error) for n in forced.nodes if n.error]
    for name in TABLES:
        assert [row[:2] for row in sandbox.rows(name)] == [(1, 10), (2, 20)]
    assert [row[:2] for row in sandbox.rows("s.t_merge")] == sandbox.rows("s.t_view") == [(1, 10), (2, 20)]


def test_a_kind_that_changes_while_somebody_writes(sandbox: Sandbox) -> None:
    sandbox.write("models/s/a.sql", "SELECT 1 AS id")
    sandbox.write("models/s/b.sql", "-- @kind: view\nSELECT 1 AS id")
    assert sandbox.build().ok
    sandbox.write("models/s/b.sql", "SELECT 1 AS id")
    sandbox.write("models/s/a.sql", "-- @kind: view\nSELECT 1 AS id")
    statements = {
        "s.a": "INSERT INTO s.a VALUES (5)",
        "s.b": "CREATE OR REPLACE VIEW s.b AS SELECT 7 AS seven",
    }
    assert_refused(sandbox, build_while(sandbox, statements), ["s.a", "s.b"])
    assert sandbox.rows("s.a") == [(1,), (5,)] and sandbox.rows("s.b") == [(7,)]
    assert sandbox.build().ok
    lake = sandbox.lake()
    assert {str(r): p.is_view for r, p in lake.list_pointers().items() if r.schema == "s" and len(r.name) == 1} == {
        "s.a": True,
        "s.b": False,
    }
    assert sandbox.rows("s.a") == sandbox.rows("s.b") == [(1,)] and sandbox.plan().nothing_to_do
