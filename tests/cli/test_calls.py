"""Calls of the command: help, mistakes, options, and where it may be called from. Nothing here needs Java."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import SEEDS, SQB, Done, Folder, build_all, new_project, run_sqb


def test_help_lists_the_commands_in_the_order_of_a_working_day(tmp_path: Path) -> None:
    done = run_sqb("--help", cwd=tmp_path)
    listed = [line.split()[0] for line in done.out.partition("Commands:")[2].splitlines() if line.strip()]
    assert done.code == 0
    assert listed[:3] == ["init", "plan", "build"] and "history" in listed
    bare = run_sqb(cwd=tmp_path)
    assert (bare.code, bare.out) == (0, done.out)


@pytest.mark.parametrize("command", ["init", "plan", "build", "run", "compile", "query", "history", "version"])
def test_every_command_has_help(tmp_path: Path, command: str) -> None:
    done = run_sqb(command, "-h", cwd=tmp_path)
    assert done.code == 0 and done.out.startswith("Usage: sqb ")


def test_version(tmp_path: Path) -> None:
    import sqb

    assert run_sqb("--version", cwd=tmp_path).out == f"sqb {sqb.__version__}\n"
    done = run_sqb("version", cwd=tmp_path)
    assert done.code == 0 and done.lines[0] == f"sqb {sqb.__version__}"
    document = run_sqb("version", "--json", cwd=tmp_path).document
    assert list(document) == ["sqb", "python", "pyspark", "pyiceberg", "sqlglot", "iceberg", "java"]


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["biuld"], "SQB-C001", 'there is no command "biuld"', "did you mean 'build'?"),
        (["xyzzy"], "SQB-C001", 'there is no command "xyzzy"', "`sqb --help` lists the commands"),
        (["plan", "--targt", "x"], "SQB-C001", "sqb plan has no option --targt", "did you mean --target?"),
        (["plan", "--wat"], "SQB-C001", "sqb plan has no option --wat", "`sqb plan --help` lists what it takes"),
        (
            ["compile", "extra"],
            "SQB-C001",
            "got unexpected extra argument (extra)",
            "nodes are chosen with --select: sqb compile -s extra",
        ),
        (["lineage", "a", "b"], "SQB-C001", "got unexpected extra argument (b)", "`sqb lineage --help`"),
        (["engine", "strat"], "SQB-C001", 'there is no command "sqb engine strat"', "did you mean 'start'"),
        (["state", "list"], "SQB-C001", 'there is no command "sqb state list"', "`sqb state --help` lists them"),
        (["plan", "--target", "dve"], "SQB-C004", 'there is no target "dve"', "did you mean 'dev'?"),
        (["build", "-s", "peple"], "SQB-C003", 'nothing is called "peple"', "did you mean 'people'?"),
        (["build", "--exclude", "tag:x"], "SQB-C003", 'nothing is called "tag:x"', None),
        (["build", "-s", ""], "SQB-C003", "an empty selector selects nothing", "write a name, a folder, +name, name+,"),
        (
            ["build", "--concurrency", "x"],
            "SQB-C001",
            "invalid value for '--concurrency': it takes a whole number from 1 to 256",
            "`sqb build --help`",
        ),
        (
            ["history", "--limit", "0"],
            "SQB-C001",
            "invalid value for '--limit': it takes a whole number from 1 on\n",
            "`sqb history --help`",
        ),
        (
            ["completion"],
            "SQB-C001",
            "missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish\n",
            "`sqb completion --help`",
        ),
        (["plan", "--project-dir", "shpo"], "SQB-C002", "there is no folder", "with --project-dir"),
        (["plan", "--vars", "x"], "SQB-C001", '--vars: "x" is not name=value', "or write --vars"),
        (["plan", "--vars", "{"], "SQB-C001", "--vars is not JSON", "write --vars"),
        (["plan", "--vars", '{"a": {"b": 1}}'], "SQB-C001", "--vars: a must be text", "such as --vars"),
        (["query"], "SQB-C001", "there is no query", "write it in quotes, name a file with -f"),
        (["history", "20010101"], "SQB-C001", 'no run is called "20010101"', "`sqb history` lists the runs"),
    ],
)
def test_a_wrong_call_is_answered_with_a_way_out(
    seeds: Folder, arguments: list[str], code: str, message: str, hint: str | None
) -> None:
    done = seeds.here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[{code}]: {message}")
    assert (hint or "hint: ") in done.err or hint is None
    machine = seeds.here(*arguments, "--json")
    assert machine.code == 2 and machine.err == ""
    assert [e["code"] for e in machine.document["errors"]] == [code] and machine.document["nodes"] == []


def test_a_current_folder_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f'cd "{gone}" && rmdir "{gone}" && exec "{SQB}" plan'
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "error[SQB-C002]: the current folder no longer exists" in done.stderr


# --- init ---------------------------------------------------------------------------------------------------------


def test_init_without_the_example(tmp_path: Path) -> None:
    done = run_sqb("init", "--empty", 'a "shop"', cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.lines[0] == 'Made a project of 4 files in a "shop"'
    folder = Folder(tmp_path / 'a "shop"')
    assert folder.here("plan").lines[0].startswith("Nothing to do: there is nothing to build.")
    folder.write({"seeds/people.csv": "id\n1\n"})
    assert folder.here("build").code == 0
    assert folder.here("ls").lines == ["seeds.people"]
    again = run_sqb("init", "--empty", 'a "shop"', cwd=tmp_path)
    assert again.code == 2 and "SQB-C005" in again.err


def test_init_makes_a_project_that_can_be_planned(tmp_path: Path) -> None:
    done = run_sqb("init", "my shop", cwd=tmp_path)
    assert done.code == 0
    assert done.lines[0].startswith("Made a project of ") and done.lines[0].endswith(" files in my shop")
    assert done.lines[1:] == [
        "Next:",
        "  cd 'my shop'",
        "  sqb plan     # what a build would do, and why",
        "  sqb build    # do it",
    ]
    folder = Folder(tmp_path / "my shop")
    assert (folder.root / ".gitignore").read_text().split() == ["lake/", ".sqb/", "sqlbuild_local.toml"]
    plan = folder.here("plan", "--json").document
    assert {n["reason"] for n in plan["nodes"]} == {"First run"}


def test_init_here_and_as_json(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    done = run_sqb("init", "--json", cwd=tmp_path)
    assert done.code == 0 and "sqlbuild_project.toml" in done.document["files"]
    assert all((tmp_path / name).is_file() for name in done.document["files"])


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("notes.txt", "is not empty: it has notes.txt"),
        ("sqlbuild_project.toml", "is a project already"),
    ],
)
def test_init_touches_nothing_that_is_there(tmp_path: Path, there: str, message: str) -> None:
    (tmp_path / there).write_text("mine")
    done = run_sqb("init", str(tmp_path), cwd=tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"error[SQB-C005]: {tmp_path} {message}\nhint: ")
    assert [p.name for p in tmp_path.iterdir()] == [there] and (tmp_path / there).read_text() == "mine"


def test_init_cannot_use_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    assert run_sqb("init", "f", cwd=tmp_path).err.startswith("error[SQB-C005]: f is a file")
    assert run_sqb("init", "f/g", cwd=tmp_path).err.startswith("error[SQB-C005]: cannot write to f/g: Not a directory")


# --- plan, build, history without Java ----------------------------------------------------------------------------

NODE = ["name", "type", "kind", "relation", "action", "run_type", "reason", "detail", "incremental", "upstream", "root"]
PLAN_NODE = [*NODE, "changes", "drivers", "lookups"]
BUILD_NODE = [*NODE, "status", "rows", "seconds", "snapshot_id", "error", "failures"]
BUILD_SUMMARY = ["ran", "skipped", "failed", "blocked", "rows", "seconds", "spark_started"]


def test_a_dbt_project_is_converted(tmp_path: Path) -> None:
    (tmp_path / "dbt/models").mkdir(parents=True)
    (tmp_path / "dbt/dbt_project.yml").write_text("name: shop\n")
    (tmp_path / "dbt/models/a.sql").write_text("{{ config(materialized='table') }}\nselect 1 as id")
    (tmp_path / "dbt/models/b.sql").write_text("select id from {{ ref('a') }}\nwhere '{{ target.name }}' = 'x'")
    (tmp_path / "dbt/models/c.sql").write_text("select\n{{ run_query('select 1') }}")
    done = run_sqb("init", "shop", "--from-dbt", "dbt", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Made a project of 5 files in shop, with 2 models",
        "Not converted:",
        "  models/c.sql:2: `run_query`: it asks the database while the project is compiled",
        "Converted, and worth a look:",
        "  models/b.sql:2: target: the text for the target dev is taken, whatever the target is here",
        "Next:",
        "  cd shop",
        "  sqb plan     # what a build would do, and why",
        "  sqb build    # do it",
    ]
    plan = run_sqb("plan", "--json", cwd=tmp_path / "shop")
    assert [node["name"] for node in json.loads(plan.out)["nodes"]] == ["default.a", "default.b"]
    data = json.loads(run_sqb("init", "again", "--from-dbt", "dbt", "--json", cwd=tmp_path).out)
    remarks = [(r["file"], r["line"], r["left_out"]) for r in data["remarks"]]
    assert (data["models"], remarks) == (2, [("models/b.sql", 2, False), ("models/c.sql", 2, True)])
    both = run_sqb("init", "x", "--empty", "--from-dbt", "dbt", cwd=tmp_path)
    assert both.code == 2 and "contradict each other" in both.err
    nowhere = run_sqb("init", "x", "--from-dbt", "shop", cwd=tmp_path)
    assert nowhere.err.startswith("error[SQB-C005]: shop is not a dbt project: it has no dbt_project.yml")


def test_a_build_and_the_one_after_it(tmp_path: Path) -> None:
    folder = new_project(tmp_path)
    assert folder.sqb("history").out == "No runs yet.\n"
    plan = folder.sqb("plan")
    assert plan.lines == [
        "run      seeds.people  (seed, backfill)  First run",
        "run      seeds.places  (seed, backfill)  First run",
        "Plan: 2 to run, 0 unchanged, 0 blocked (target dev)",
    ]
    first = folder.sqb("build")
    assert (first.code, first.err) == (0, "")
    assert sorted(line.rpartition(", ")[0] for line in first.lines[:2]) == [
        "[OK] seeds.people (seed, backfill, 2 rows",
        "[OK] seeds.places (seed, backfill, 1 row",
    ]
    assert first.lines[2].startswith("Done: 2 ran, 0 skipped, 0 failed (3 rows, ")
    second = folder.sqb("build")
    assert second.lines[:-1] == [
        "[OK] seeds.people (seed, skip — unchanged)",
        "[OK] seeds.places (seed, skip — unchanged)",
        "Nothing to do: everything is up to date.",
    ]
    assert second.lines[-1].startswith("Done: 0 ran, 2 skipped, 0 failed (0 rows, ")
    assert folder.sqb("plan").lines[-1] == "Nothing to do: 2 unchanged (target dev)"


def test_documents_have_exactly_their_keys(tmp_path: Path) -> None:
    folder = new_project(tmp_path)
    plan = folder.here("plan", "--json")
    assert (plan.code, plan.err) == (0, "")
    assert list(plan.document) == ["target", "nodes", "summary"]
    assert [list(n) for n in plan.document["nodes"]] == [PLAN_NODE, PLAN_NODE]
    assert plan.document["summary"] == {"run": 2, "skip": 0, "blocked": 0}
    build = folder.here("build", "--json")
    assert build.code == 0
    assert list(build.document) == ["target", "run_id", "nodes", "summary"]
    assert [list(n) for n in build.document["nodes"]] == [BUILD_NODE, BUILD_NODE]
    assert list(build.document["summary"]) == BUILD_SUMMARY
    assert {n["name"]: (n["status"], n["rows"], n["error"]) for n in build.document["nodes"]} == {
        "seeds.people": ("ok", 2, None),
        "seeds.places": ("ok", 1, None),
    }
    assert all(isinstance(n["snapshot_id"], int) for n in build.document["nodes"])
    assert build.document["summary"]["spark_started"] is False
    assert "[OK] seeds.people" in build.err
    again = folder.here("run", "--json")
    assert again.err == "" and again.document["summary"]["skipped"] == 2


def test_history_of_runs_of_one_run_and_of_a_node(tmp_path: Path) -> None:
    folder = build_all(new_project(tmp_path))
    folder.write({"seeds/people.csv": "id,name\n7,Barbara\n"})
    build_all(folder)
    runs = folder.here("history").lines
    assert runs[0].split() == ["run", "at", "(UTC)", "ran", "failed", "rows", "node", "time", "what"]
    newest, oldest = runs[2].split()[0], runs[3].split()[0]
    assert newest[:15] >= oldest[:15]
    assert runs[2].endswith("seeds.people") and runs[3].endswith("seeds.people, seeds.places")
    one = folder.here("history", oldest).lines
    assert [line.split()[1] for line in one[2:]] == ["seeds.people", "seeds.places"]
    node = folder.here("history", "--node", "people").lines
    assert [line.rstrip().rpartition("  ")[2] for line in node[2:]] == ["Query changed", "First run"]
    assert folder.here("history", "--node", "nobody").out == "No runs of nobody yet.\n"
    assert len(folder.here("history", "--limit", "1").lines) == 3
    document = folder.here("history", "--json").document
    assert list(document) == ["target", "runs"]
    assert [r["run_id"] for r in document["runs"]] == [newest, oldest]
    assert [n["status"] for r in document["runs"] for n in r["nodes"]] == ["ok", "ok", "ok"]


def test_targets_do_not_touch_each_other(tmp_path: Path) -> None:
    toml = 'name = "shop"\ndefault_target = "dev"\n[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod"\n'
    folder = build_all(new_project(tmp_path, {**SEEDS, "sqlbuild_project.toml": toml}))
    done = folder.here("plan", "--target", "prod")
    assert done.lines[-1] == "Plan: 2 to run, 0 unchanged, 0 blocked (target prod)"
    assert folder.here("build", "--target=prod").code == 0
    assert {n["relation"] for n in folder.here("plan", "--target", "prod", "--json").document["nodes"]} == {
        "prod.people",
        "prod.places",
    }
    assert folder.here("plan").lines[-1] == "Nothing to do: 2 unchanged (target dev)"


def test_selection_on_the_command_line(seeds: Folder) -> None:
    def names(*arguments: str) -> list[str]:
        return [n["name"] for n in seeds.here("plan", "--json", *arguments).document["nodes"]]

    assert names("-s", "people") == ["seeds.people"]
    assert names("-s", "people", "-s", "places") == ["seeds.people", "seeds.places"]
    assert names("--select", "seed:*", "--exclude", "places") == ["seeds.people"]
    forced = seeds.here("plan", "-s", "people", "--force")
    assert forced.lines[0] == "run      seeds.people  (seed, full)  Forced"


VARIABLES: list[Any] = [
    ("days=30", "30"),
    ("days=-1", "-1"),
    ("days=1.50", "1.5"),
    ("days=true", "TRUE"),
    ("days=de", "'de'"),
    ("days=a=b", "'a=b'"),
    ("days=a,b", "'a,b'"),
    ("other=1,days=2", "2"),
    ("days=", "''"),
    ("days=NaN", "'NaN'"),
    ('{"days": 30}', "30"),
    ('{"days": "30"}', "'30'"),
    ('{"days": null}', "NULL"),
    ('{"days": ["de", 1]}', "('de', 1)"),
]


@pytest.mark.parametrize(("given", "sql"), VARIABLES)
def test_variables_of_a_call(seeds: Folder, given: str, sql: str) -> None:
    with seeds.with_files({"models/m.sql": "SELECT @@days AS d"}):
        done = seeds.here("compile", "--vars", given)
    assert done.lines[1].split() == f"SELECT {sql} AS d;".split(), done.err


def test_compile_shows_the_sql_that_is_run(seeds: Folder) -> None:
    files = {
        "models/marts/m.sql": "-- @kind: view\nSELECT p.id, seeds.places.place -- b\nFROM people p JOIN seeds.places;",
        "models/marts/n.sql": "SELECT * FROM m",
    }
    with seeds.with_files(files):
        done = seeds.here("compile")
        one = seeds.here("compile", "-s", "n", "--json").document
    assert done.out == (
        "-- marts.m (view) → marts.m\n"
        "SELECT p.id, `places`.place -- b\n"
        "FROM `lake`.`seeds`.`people` p JOIN `lake`.`seeds`.`places` AS `places`;\n\n"
        "-- marts.n (table) → marts.n\nSELECT * FROM `lake`.`marts`.`m` AS `m`;\n\n"
    )
    assert one == {
        "target": "dev",
        "nodes": [
            {
                "name": "marts.n",
                "type": "model",
                "kind": "table",
                "relation": "marts.n",
                "file": "models/marts/n.sql",
                "upstream": ["marts.m"],
                "sql": "SELECT * FROM `lake`.`marts`.`m` AS `m`",
            }
        ],
    }


# --- where and how it is called -----------------------------------------------------------------------------------


def test_from_a_folder_inside_the_project_and_from_elsewhere(seeds: Folder, tmp_path: Path) -> None:
    expected = seeds.here("plan").out
    assert seeds.here("plan", cwd=seeds.root / "seeds").out == expected
    assert run_sqb("plan", "--project-dir", str(seeds.root), cwd=tmp_path).out == expected
    relative = os.path.relpath(seeds.root / "seeds", tmp_path)
    assert run_sqb("plan", f"--project-dir={relative}", cwd=tmp_path).out == expected
    missing = run_sqb("plan", "--project-dir", str(tmp_path / "nowhere"), cwd=seeds.root)
    assert missing.code == 2 and missing.err.startswith("error[SQB-C002]: ")


def test_errors_show_their_line_from_elsewhere_too(seeds: Folder, tmp_path: Path) -> None:
    with seeds.with_files({"models/m.sql": "SELECT 1; SELECT 2"}):
        for option in (["--project-dir", str(seeds.root)], [f"--project-dir={seeds.root}"]):
            done = run_sqb("plan", *option, cwd=tmp_path)
            assert done.err.splitlines()[1] == "  1 | SELECT 1; SELECT 2"


def test_colour_only_where_it_is_wanted(seeds: Folder) -> None:
    assert "\x1b[" not in seeds.here("build").out
    assert "\x1b[32m[OK]\x1b[0m" in seeds.here("build", env={"FORCE_COLOR": "1"}).out
    assert "\x1b[" not in seeds.here("build", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    assert "\x1b[" not in seeds.here("build", "-s", "nobody", env={"NO_COLOR": "1"}).err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_locale_gets_utf_8(seeds: Folder, encoding: str) -> None:
    done = seeds.sqb("build", env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"})
    assert done.code == 0 and "skip — unchanged" in done.out


def test_a_reader_that_has_seen_enough_is_no_error(seeds: Folder) -> None:
    seeds_many = {f"seeds/s{i}.csv": "id\n1\n" for i in range(30)}
    with seeds.with_files(seeds_many):
        command = f"'{SQB}' plan -v | head -n 1; exec '{SQB}' plan >&-"
        done = subprocess.run(["sh", "-c", command], cwd=seeds.root, capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""


def test_debug_shows_where_an_error_came_from(seeds: Folder) -> None:
    plain, debug = seeds.here("plan", "--target", "x"), seeds.here("plan", "--target", "x", "--debug")
    assert "Traceback" not in plain.err
    assert debug.err.startswith("Traceback") and debug.err.endswith(plain.err) and debug.code == 2


def test_more_than_twenty_unchanged_nodes_are_one_line(tmp_path: Path) -> None:
    files = {"sqlbuild_project.toml": 'name = "x"\n', **{f"seeds/s{i:02}.csv": "id\n1\n" for i in range(21)}}
    folder = build_all(new_project(tmp_path, files))
    assert folder.here("build").lines[0] == "[OK] 21 nodes (skip — unchanged)"
    assert len(folder.here("build", "-v").lines) == 23
    assert folder.here("plan").lines == ["skip     21 nodes, unchanged", "Nothing to do: 21 unchanged (target dev)"]


# --- Java ---------------------------------------------------------------------------------------------------------


def java_home(folder: Path, version: str) -> Path:
    """A Java installation that only says its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


UNIT_TEST = """
tests:
  - name: t
    model: m
    given: {people: [{id: 1}]}
    expect: [{id: 1}]
"""


def build_with_a_model(seeds: Folder, env: dict[str, str | None]) -> Done:
    before = seeds.lake()
    with seeds.with_files({"models/m.sql": "SELECT id FROM people", "models/n.sql": "SELECT id FROM places"}):
        done = seeds.sqb("build", env=env)
    assert done.code == 1 and "Traceback" not in done.err
    after = seeds.lake()
    assert {k for k in after if "/m/" in k or "/n/" in k} == set()
    assert {k: v for k, v in after.items() if "/people/" in k} == {k: v for k, v in before.items() if "/people/" in k}
    return done


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402", "25"])
def test_a_java_that_spark_does_not_run_on(seeds: Folder, tmp_path: Path, version: str) -> None:
    home = java_home(tmp_path / "jdk", version)
    done = build_with_a_model(seeds, {"JAVA_HOME": str(home)})
    expected = f"error[SQB-E001]: Spark needs Java 17 to 21, but {home}/bin/java is Java {version}"
    assert done.err.startswith(expected) and "hint: install OpenJDK 17 or 21" in done.err
    assert done.err.count("error[") == 1 and done.out == "", "one cause is told once, before anything runs"


def test_what_needs_a_java_that_is_not_there_says_so_before_anything_runs(seeds: Folder, tmp_path: Path) -> None:
    env = {"JAVA_HOME": str(java_home(tmp_path / "jdk", "25"))}
    files = {"models/m.sql": "SELECT id FROM people", "seeds/people.csv": "id\n1\n2\n3\n", "tests/t.yml": UNIT_TEST}
    before = seeds.lake()
    with seeds.with_files(files):
        for command in (["build"], ["build", "--json"], ["build", "--log-format", "json"], ["test"]):
            done = seeds.sqb(*command, env=env)
            printed = done.out + done.err
            assert done.code == 1 and "SQB-E001" in printed and "[OK]" not in printed and "SQB-X" not in printed
        validated = seeds.sqb("validate", "--spark", "--format", "json", env=env)
        assert (validated.code, [e["code"] for e in json.loads(validated.out)["errors"]]) == (1, ["SQB-E001"])
        with seeds.with_files({"models/wrong.sql": "SELECT nothing FROM people"}):
            both = seeds.sqb("validate", "--spark", "--json", env=env)
        assert (both.code, {e["code"] for e in json.loads(both.out)["errors"]}) == (2, {"SQB-E001", "SQB-S006"})
        assert seeds.lake() == before
        assert seeds.sqb("build", "-s", "people", env=env).code == 0, "a seed needs no Java"
    assert seeds.here("build").code == 0


def test_no_java_at_all(seeds: Folder, tmp_path: Path) -> None:
    done = build_with_a_model(seeds, {"JAVA_HOME": None, "PATH": str(tmp_path)})
    assert "error[SQB-E001]: no Java was found: JAVA_HOME is not set and there is no `java` on PATH" in done.err
    gone = build_with_a_model(seeds, {"JAVA_HOME": str(tmp_path / "gone")})
    assert f"error[SQB-E001]: JAVA_HOME is {tmp_path}/gone, but there is no {tmp_path}/gone/bin/java" in gone.err


def test_plans_and_versions_need_no_java(seeds: Folder, tmp_path: Path) -> None:
    env = {"JAVA_HOME": None, "PATH": str(tmp_path)}
    with seeds.with_files({"models/m.sql": "SELECT id FROM people"}):
        assert seeds.sqb("plan", env=env).lines[-1] == "Plan: 1 to run, 2 unchanged, 0 blocked (target dev)"
    version = seeds.sqb("version", "--json", env=env)
    assert version.code == 0 and json.loads(version.out)["java"].startswith("no Java was found")


def test_a_query_without_java_says_so(seeds: Folder, tmp_path: Path) -> None:
    done = seeds.sqb("query", "SELECT * FROM people", env={"JAVA_HOME": None, "PATH": str(tmp_path)})
    assert done.code == 1 and done.err.startswith("error[SQB-E001]: no Java was found")


def test_nothing_is_left_behind(seeds: Folder) -> None:
    shutil.rmtree(seeds.root / ".sqb")
    done = seeds.here("build")
    assert done.code == 0 and done.lines[-2] == "Nothing to do: everything is up to date."


def test_a_query_only_reads(seeds: Folder) -> None:
    done = seeds.sqb("query", "DROP TABLE seeds.people")
    assert done.code == 2
    assert "`sqb query` only reads, and DROP does more" in done.err
