"""The janitor of a project with virtual environments: seen from the command line, without Java."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from cli.conftest import SEEDS, Folder, build_all, new_project

VIRTUAL = 'name = "shop"\n[virtual]\nenabled = true\nttl = "1s"\ngrace = "0s"\nkeep_checkpoints = 1\n'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return build_all(new_project(tmp_path / "a project", {**SEEDS, "sqlbuild_project.toml": VIRTUAL}))


def entries(folder: Folder) -> dict[str, int]:
    """How many relations there are in each schema, state tables left out."""
    with sqlite3.connect(folder.root / "lake" / "catalog.db") as connection:
        rows = connection.execute(
            "SELECT table_namespace, count(*) FROM iceberg_tables WHERE table_name NOT LIKE '\\_%' ESCAPE '\\'"
            " GROUP BY 1 ORDER BY 1"
        )
        return dict(rows)


def test_environments_checkpoints_and_versions_go(folder: Folder) -> None:
    before = entries(folder)
    assert before == {"_sqlbuild": 1, "seeds__dev": 2, "seeds__sqb_physical": 2}
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n3,Edsger\n"})
    assert folder.here("build", "--virtual-env", "pr_1").code == 0
    assert entries(folder) == {"_sqlbuild": 1, "seeds__dev": 2, "seeds__pr_1": 2, "seeds__sqb_physical": 3}
    time.sleep(1.1)
    dry = folder.here("janitor", "--dry-run", "--json").document
    assert entries(folder) == {"_sqlbuild": 1, "seeds__dev": 2, "seeds__pr_1": 2, "seeds__sqb_physical": 3}
    done = folder.here("janitor", "--json").document
    assert done["removed"] == dry["removed"]
    assert [
        (r["what"], r["name"].split("__v_")[0]) for r in done["removed"] if r["what"] in ("environment", "version")
    ] == [
        ("environment", "pr_1"),
        ("version", "seeds__sqb_physical.people"),
    ]
    assert {k: done["summary"][k] for k in ("environments", "views", "versions")} == {
        "environments": 1,
        "views": 2,
        "versions": 1,
    }
    assert entries(folder) == before
    assert folder.here("janitor").lines == ["Nothing to remove."]
    with folder.with_files(SEEDS | {"sqlbuild_project.toml": VIRTUAL}):
        assert "Nothing to do" in folder.here("build").out


def test_checkpoints_go_and_what_they_showed(folder: Folder) -> None:
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n3,Edsger\n"})
    build_all(folder)
    lines = [line for line in folder.here("janitor").lines if "history" not in line and "_sqlbuild" not in line]
    assert lines[0] == "removed   1 checkpoint of dev: beyond keep_checkpoints"
    assert "for longer than grace" in lines[1]
    assert entries(folder) == {"_sqlbuild": 1, "seeds__dev": 2, "seeds__sqb_physical": 2}


@pytest.mark.parametrize("step", ["before history", "views moved"])
def test_a_killed_build_leaves_nothing_for_good(folder: Folder, step: str) -> None:
    before = entries(folder)
    folder.write({"seeds/people.csv": f"id,name\n1,{step}\n"})
    killed = folder.sqb("build", "--virtual-env", "pr_1", env={"SQB_FAULT": f"kill:{step}:"})
    assert killed.code == -9
    time.sleep(1.1)
    folder.here("janitor")
    unfinished = step == "views moved"
    # An environment whose making was begun is finished by whoever opens it next, and keeps what it shows until then.
    assert ("seeds__pr_1" in entries(folder)) == unfinished
    if unfinished:
        assert folder.here("build", "--virtual-env", "pr_1").code == 0
        time.sleep(1.1)
        folder.here("janitor")
    assert entries(folder) == before


def test_nothing_of_environments_is_touched_without_their_database(folder: Folder) -> None:
    before = entries(folder)
    away = VIRTUAL + 'state = "postgresql://nobody@127.0.0.1:1/nowhere"\n'
    with folder.with_files({"sqlbuild_project.toml": away}):
        done = folder.here("janitor")
    assert done.code == 0
    assert next(line for line in done.lines if line.startswith("kept")).endswith("; nothing of them was touched")
    with folder.with_files({"sqlbuild_project.toml": 'name = "shop"\n[janitor]\nsnapshot_retention = "0s"\n'}):
        assert not [line for line in folder.here("janitor").lines if "people" in line]
    assert entries(folder) == before
