"""Whatever is wrong with a project gets its own error, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cli.conftest import Folder, new_project

ONE = "SELECT id FROM people"

PROBLEMS: list[Any] = [
    pytest.param({"models/m.sql": ""}, "SQB-S001", "models/m.sql:1:1", "there is no query", id="empty"),
    pytest.param(
        {"models/m.sql": "-- @kind: table\n-- later\n/* more */\n"},
        "SQB-S001",
        "models/m.sql:2:1",
        "there is no query",
        id="comments only",
    ),
    pytest.param(
        {"models/m.sql": f"{ONE};\nDELETE FROM people"},
        "SQB-S002",
        "models/m.sql:2:1",
        "a second statement begins here",
        id="two statements",
    ),
    pytest.param(
        {"models/m.sql": "INSERT INTO people SELECT 1"},
        "SQB-S003",
        "models/m.sql:1:1",
        "a model is one SELECT; this is an INSERT",
        id="not a select",
    ),
    pytest.param(
        {"models/m.sql": "DROP TABLE seeds.people"},
        "SQB-S003",
        "models/m.sql:1:1",
        "a model is one SELECT; this is a DROP",
        id="a drop",
    ),
    pytest.param(
        {"models/m.sql": "SELECT id,\n  FROM WHERE people"},
        "SQB-S004",
        "models/m.sql:2:8",
        "the SQL does not parse",
        id="not SQL",
    ),
    pytest.param(
        {"models/m.sql": f"-- @knid: view\n{ONE}"},
        "SQB-P002",
        "models/m.sql:1:5",
        "unknown key `knid` in the header",
        id="header typo",
    ),
    pytest.param(
        {"models/m.sql": f"MODEL (kind view\n{ONE}"},
        "SQB-P007",
        "models/m.sql:1:1",
        "the `MODEL (` block has no `)`",
        id="open header",
    ),
    pytest.param(
        {"models/m.sql": f"-- @kind: tabel\n{ONE}"},
        "SQB-P008",
        "models/m.sql:1:11",
        'there is no kind "tabel"',
        id="unknown kind",
    ),
    pytest.param(
        {"models/m.sql": "SELECT *\nFROM peple"},
        "SQB-R002",
        "models/m.sql:2:6",
        'no model, seed, source or table is called "peple"',
        id="reference to nothing",
    ),
    pytest.param(
        {"models/a.sql": "SELECT * FROM b", "models/b.sql": "SELECT * FROM c", "models/c.sql": "SELECT * FROM a"},
        "SQB-R004",
        "models/a.sql:1:15",
        "models read each other in a circle: default.a → default.b → default.c → default.a",
        id="cycle of three",
    ),
    pytest.param(
        {"models/x/m.sql": f"-- @schema: y\n{ONE}", "models/y/m.sql": ONE},
        "SQB-R001",
        "models/y/m.sql",
        "y.m is also built by models/x/m.sql",
        id="two models, one relation",
    ),
    pytest.param(
        {"seeds/bad.csv": "a,b\n1,2\n3\n4,5,6\n"},
        "SQB-P011",
        "seeds/bad.csv:3:1",
        "row has 1 value, the header has 2",
        id="ragged seed",
    ),
    pytest.param(
        {"seeds/bad.csv": "a,b,A\n1,2,3\n"},
        "SQB-P011",
        "seeds/bad.csv:1:5",
        "two columns are called",
        id="duplicate column of a seed",
    ),
    pytest.param(
        {"seeds/bad.csv": b"a\n\xe4\xf6\n"}, "SQB-P011", "seeds/bad.csv:2:1", "not UTF-8", id="seed not UTF-8"
    ),
    pytest.param({"models/m.sql": b"SELECT '\xe4'"}, "SQB-P013", "models/m.sql:1:1", "not UTF-8", id="model not UTF-8"),
    pytest.param(
        {"sqlbuild_project.toml": 'name = "shop\n'},
        "SQB-P001",
        "sqlbuild_project.toml:1:13",
        "this is not valid TOML",
        id="broken TOML",
    ),
    pytest.param(
        {"sqlbuild_project.toml": 'name = "shop"\n[target.dev]\n'},
        "SQB-P002",
        "sqlbuild_project.toml:2:2",
        "unknown key `target`",
        id="unknown setting",
    ),
    pytest.param(
        {"sources/s.yml": "sources: [\n"}, "SQB-P010", "sources/s.yml:2:1", "this is not valid YAML", id="broken YAML"
    ),
    pytest.param(
        {"macros/m.py": "def one(:\n"}, "SQB-P014", "macros/m.py:1:9", "not Python", id="macro that is not Python"
    ),
    pytest.param(
        {"models/x.sql/m.sql": ONE},
        "SQB-R006",
        "models/x.sql/m.sql",
        '"x.sql" cannot be the schema of a relation',
        id="a folder named x.sql",
    ),
    pytest.param(
        {"models/größe.sql": ONE},
        "SQB-R006",
        "models/größe.sql",
        '"größe" cannot be the name of a relation',
        id="a name with an umlaut",
    ),
    pytest.param(
        {"models/m.sql": "SELECT " + "(" * 500 + "1" + ")" * 499 + " AS a"},
        "SQB-S004",
        "models/m.sql:1:8",
        "this ( is never closed",
        id="500 parentheses, one of them open",
    ),
]


@pytest.mark.parametrize(("files", "code", "place", "message"), PROBLEMS)
def test_a_project_that_is_wrong(
    seeds: Folder, files: Mapping[str, str | bytes], code: str, place: str, message: str
) -> None:
    before = seeds.lake()
    with seeds.with_files(files):
        done = seeds.here("build")
    assert done.code == 2, done.err
    assert done.out == ""
    first = next(line for line in done.err.splitlines() if place in line)
    assert first.startswith(f"error[{code}]: {place}: ") and message in first
    assert "Traceback" not in done.err
    assert seeds.lake() == before


def test_errors_as_one_json_document(seeds: Folder) -> None:
    files = {"models/a.sql": "-- @kind: tabel\nSELECT 1 AS a", "seeds/bad.csv": "a,b\n1\n"}
    with seeds.with_files(files):
        done = seeds.here("build", "--json")
    assert (done.code, done.err) == (2, "")
    assert done.document == {
        "errors": [
            {
                "code": "SQB-P008",
                "file": "models/a.sql",
                "line": 1,
                "column": 11,
                "message": 'there is no kind "tabel"',
                "hint": "did you mean 'table'?",
            },
            {
                "code": "SQB-P011",
                "file": "seeds/bad.csv",
                "line": 2,
                "column": 1,
                "message": "row has 1 value, the header has 2",
                "hint": done.document["errors"][1]["hint"],
            },
        ],
        "nodes": [],
    }


@pytest.mark.parametrize("command", [["plan"], ["compile"], ["history"], ["query", "SELECT 1"]])
def test_every_command_refuses_a_project_that_is_wrong(seeds: Folder, command: list[str]) -> None:
    with seeds.with_files({"models/m.sql": "SELECT 1; SELECT 2"}):
        done = seeds.here(*command)
    assert done.code == 2 and done.err.startswith("error[SQB-S002]: models/m.sql:1:11: ")


def test_the_place_is_underlined_and_the_way_out_is_said(seeds: Folder) -> None:
    with seeds.with_files({"models/m.sql": "-- @kind: table\nSELECT *\n  FROM peple AS p\n"}):
        done = seeds.here("build")
    assert done.err == (
        'error[SQB-R002]: models/m.sql:3:8: no model, seed, source or table is called "peple"\n'
        "  3 |   FROM peple AS p\n"
        "    |        ^^^^^\n"
        "hint: did you mean 'people'?\n"
    )


def test_only_names_that_exist_are_proposed(seeds: Folder) -> None:
    """Not the same mistake in another model, nor a declared source that is missing too."""
    files = {
        "models/a.sql": "SELECT * FROM raw.ordrs",
        "models/b.sql": "SELECT * FROM raw.orders",
        "models/c.sql": "SELECT * FROM raw.orderz",
        "sources/raw.yml": "sources:\n  - name: raw.orders\n",
    }
    with seeds.with_files(files):
        done = seeds.here("build", "--json")
    assert done.code == 2 and len(done.document["errors"]) == 3
    assert not [e["hint"] for e in done.document["errors"] if "did you mean" in (e["hint"] or "")]
    with seeds.with_files({"models/a.sql": 'SELECT * FROM __source("peopl")'}):
        done = seeds.here("build", "--json")
    assert [e["hint"] for e in done.document["errors"]] == [None]


def test_all_errors_come_at_once(seeds: Folder) -> None:
    files = {"models/a.sql": "", "models/b.sql": "SELECT 1; SELECT 2", "seeds/bad.csv": "a,a\n"}
    with seeds.with_files(files):
        done = seeds.here("plan", "--json")
    assert [e["file"] for e in done.document["errors"]] == ["models/a.sql", "models/b.sql", "seeds/bad.csv"]


def test_no_project_at_all(tmp_path: Any) -> None:
    done = Folder(tmp_path).sqb("build")
    assert done.code == 2
    assert done.err.startswith(f"error[SQB-C002]: no sqlbuild_project.toml in {tmp_path} or above it\nhint: ")


def test_a_project_without_anything_in_it_is_fine(tmp_path: Any) -> None:
    folder = new_project(tmp_path, {"sqlbuild_project.toml": 'name = "x"\n'})
    done = folder.here("build")
    assert done.code == 0
    assert done.lines[-1].startswith("Done: 0 ran, 0 skipped, 0 failed (0 rows,")
    assert json.loads(folder.here("plan", "--json").out)["nodes"] == []


@pytest.mark.parametrize(
    "files",
    [
        {"models/m.sql": "\ufeff-- @kind: view\r\nSELECT id\r\nFROM people\r\n"},
        {
            "models/m.sql": "WITH c0 AS (SELECT id FROM people), "
            + ", ".join(f"c{i} AS (SELECT id FROM c{i - 1})" for i in range(1, 300))
            + " SELECT id FROM c299"
        },
        {"models/m.sql": "SELECT id AS `größe`, '日本' AS `名前` FROM people"},
    ],
    ids=["line endings", "300 CTEs", "unicode columns"],
)
def test_unusual_models_are_planned(seeds: Folder, files: dict[str, str]) -> None:
    with seeds.with_files(files):
        done = seeds.here("plan")
    assert done.code == 0, done.err
    assert done.lines[-1] == "Plan: 1 to run, 2 unchanged, 0 blocked (target dev)"


def test_a_link_that_leads_back_to_its_folder(seeds: Folder) -> None:
    loop = seeds.root / "models" / "loop"
    with seeds.with_files({"models/m.sql": ONE}):
        loop.symlink_to(loop.parent)
        done = seeds.here("plan")
    assert done.code == 2
    assert done.err.startswith("error[SQB-P013]: models/loop: this link leads back to a folder that it is in\n")
