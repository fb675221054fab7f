"""Files that change under a build, kinds of files, views of others, and models that run though nothing changed."""

from __future__ import annotations

import threading
from pathlib import Path

from sqb.errors.sources import FilesMoved, FilesUnreadable
from support.sandbox import Sandbox, names_by_status

FILES = 'sources:\n- {name: f, path: "in/*.csv", options: {header: true, schema: "id INT"}}\n'
RECORDED = "SELECT source_name, data_version FROM s._sqlbuild_source_freshness ORDER BY observed_at, 1"


def recorded(sandbox: Sandbox) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in sandbox.sql(RECORDED)]


def test_files_that_change_while_they_are_read(sandbox: Sandbox) -> None:
    sandbox.write("sources/s.yml", FILES)
    sandbox.write("models/s/a.sql", "SELECT * FROM f")
    sandbox.write("models/s/b.sql", "SELECT 1 AS one")
    sandbox.write("in/1.csv", "id\n1\n")

    def meddle(step: str, node: str) -> None:
        if (step, node) == ("written", "s.a"):
            sandbox.write("in/1.csv", "id\n1\n2\n")
            sandbox.write("in/late.csv", "id\n9\n")

    result = sandbox.build(announce=meddle)
    assert names_by_status(result) == {"failed": ["s.a"], "ok": ["s.b"]}
    error = next(n.error for n in result.nodes if n.error is not None)
    assert isinstance(error, FilesMoved) and "1.csv" in error.message and "late" not in error.message
    assert sandbox.stages() == [] and "s.a" not in sandbox.relations()
    assert "s._sqlbuild_source_freshness" not in sandbox.relations()

    def remove(step: str, node: str) -> None:
        if (step, node) == ("engine started", "s.a"):
            sandbox.remove("in/1.csv")

    result = sandbox.build(announce=remove)
    assert isinstance(result.nodes[0].error, FilesMoved)
    sandbox.write("in/1.csv", "id\n5\n")

    def add(step: str, node: str) -> None:
        if (step, node) == ("engine started", "s.a"):
            sandbox.write("in/late2.csv", "id\n10\n")

    assert names_by_status(sandbox.build(announce=add)) == {"ok": ["s.a"], "skipped": ["s.b"]}
    assert sandbox.rows("s.a") == [(5,), (9,)]
    assert names_by_status(sandbox.build())["ok"] == ["s.a"]
    assert sandbox.rows("s.a") == [(10,), (5,), (9,)]


def test_every_format_and_files_that_are_none_of_it(sandbox: Sandbox, tmp_path: Path) -> None:
    for name in ("parquet", "orc", "json", "csv"):
        target = sandbox.folder / "in" / name
        sandbox.sql(f"INSERT OVERWRITE DIRECTORY '{target}' USING {name} SELECT 7 AS id")
    declared = [f"- {{name: {n}_files, path: in/{n}, format: {n}}}" for n in ("parquet", "orc", "json", "csv")]
    sandbox.write("sources/s.yml", "\n".join(["sources:", *declared, "- {name: odd, path: in/json, format: parquet}"]))
    union = " UNION ALL ".join(f"SELECT CAST(id AS INT) AS id FROM {n}_files" for n in ("parquet", "orc", "json"))
    sandbox.write("models/s/a.sql", f"{union} UNION ALL SELECT CAST(_c0 AS INT) FROM csv_files")
    sandbox.write("models/s/odd.sql", "SELECT * FROM __source('odd')")
    result = sandbox.build()
    assert sandbox.rows("s.a") == [(7,), (7,), (7,), (7,)]
    assert names_by_status(result) == {"failed": ["s.odd"], "ok": ["s.a"]}
    error = next(n.error for n in result.nodes if n.error is not None)
    assert isinstance(error, FilesUnreadable) and "the source odd cannot be read as parquet" in error.message
    assert "is not a Parquet file" in error.message and "Caused" not in error.message and "\n" not in error.message


def test_a_view_of_others_has_versions_when_it_has_values(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.t AS SELECT 1 AS id")
    sandbox.sql("CREATE VIEW raw.v AS SELECT * FROM lake.raw.t")
    sandbox.write("sources/s.yml", "sources:\n- {name: raw.v, freshness: {column: id, type: integer}}\n")
    sandbox.write("models/s/a.sql", "SELECT * FROM raw.v")
    assert names_by_status(sandbox.build()) == {"ok": ["s.a"]}
    assert names_by_status(sandbox.build()) == {"skipped": ["s.a"]}
    sandbox.sql("INSERT INTO raw.t VALUES (0)")
    assert names_by_status(sandbox.build()) == {"skipped": ["s.a"]}
    sandbox.sql("INSERT INTO raw.t VALUES (2)")
    assert names_by_status(sandbox.build()) == {"ok": ["s.a"]}
    assert sandbox.rows("s.a") == [(0,), (1,), (2,)]
    assert recorded(sandbox) == [("raw.v", "1"), ("raw.v", "2")]


def test_models_that_run_despite_unchanged(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.t AS SELECT 1 AS id, current_timestamp() AS ts")
    sandbox.write("sources/s.yml", "sources:\n- {name: raw.t, freshness: {column: ts, type: timestamp}}\n")
    sandbox.write("models/s/a.sql", "-- @run_despite_unchanged: always\nSELECT id FROM raw.t")
    sandbox.write("models/s/b.sql", "SELECT * FROM s.a")
    sandbox.write("models/s/c.sql", "-- @run_despite_unchanged: 30d\nSELECT * FROM s.b")
    assert names_by_status(sandbox.build()) == {"ok": ["s.a", "s.b", "s.c"]}
    again = sandbox.build()
    assert names_by_status(again) == {"ok": ["s.a"], "skipped": ["s.b", "s.c"]}
    ran = again.nodes[0]
    assert (ran.planned.reason, ran.identical, ran.run_type) == ("Run despite unchanged", True, "full")
    assert len(recorded(sandbox)) == 1
    sandbox.edit("models/s/c.sql", "30d", "1ms")
    assert names_by_status(sandbox.build()) == {"ok": ["s.a", "s.c"], "skipped": ["s.b"]}


def test_an_interrupted_build_records_no_source(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.t AS SELECT 1 AS id")
    sandbox.write("models/s/a.sql", "SELECT id FROM raw.t")
    stop = threading.Event()

    def interrupt(step: str, node: str) -> None:
        if step == "published":
            stop.set()

    sandbox.build(announce=interrupt, stop=stop)
    assert sandbox.rows("s.a") == [(1,)]
    assert "s._sqlbuild_source_freshness" not in sandbox.relations()
    sandbox.sql("INSERT INTO raw.t VALUES (2)")
    sandbox.build()
    assert [name for name, _ in recorded(sandbox)] == ["raw.t"]
