"""Builds that are killed, and what cleans up after them: seen from the command line, without Java."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import SEEDS, SQB, Folder, build_all, new_project, run_sqb
from contract.lakes import SqliteProbe

SEED_STEPS = ("planned", "before stage", "staged", "written", "before publish", "published", "before history")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return build_all(new_project(tmp_path / "a project", SEEDS))


def kill(folder: Folder, step: str, node: str = "") -> None:
    folder.write({"seeds/people.csv": f"id,name\n1,{step.replace(' ', '_')}\n"})
    done = folder.sqb("build", "--concurrency", "1", env={"SQB_FAULT": f"kill:{step}:{node}"})
    assert done.code == -9, done.out + done.err


def files(folder: Folder) -> set[str]:
    root = folder.root / "lake" / "data"
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "_runs" not in p.parts}


def entries(folder: Folder) -> set[str]:
    with sqlite3.connect(folder.root / "lake" / "catalog.db") as connection:
        return {f"{s}.{t}" for s, t in connection.execute("SELECT table_namespace, table_name FROM iceberg_tables")}


def garbage(folder: Folder) -> set[str]:
    """Files of the warehouse that no table leads to, found by somebody else's code."""
    return {file for file in SqliteProbe(folder.root / "lake").garbage() if "_runs" not in file}


def test_nothing_to_remove(folder: Folder) -> None:
    before = folder.lake()
    for arguments in (("--dry-run",), ()):
        done = folder.here("janitor", *arguments)
        assert (done.code, done.out) == (0, "Nothing to remove.\n"), done.err
    after = {k: v for k, v in folder.lake().items() if "_runs" not in k}
    assert after == before
    empty = new_project(folder.root.parent / "empty")
    assert empty.here("janitor").out == "Nothing to remove.\n" and not (empty.root / "lake").exists()


def test_killed_at_every_step_and_cleaned_up(folder: Folder) -> None:
    for step in SEED_STEPS:
        kill(folder, step)
    before = files(folder)
    # Planning does not look at what is left.
    plan = folder.here("plan", "--json").document
    assert {n["name"]: n["reason"] for n in plan["nodes"]} == {"seeds.people": "Normal", "seeds.places": "Normal"}
    assert files(folder) == before
    build_all(folder)
    before = files(folder)
    dry = folder.here("janitor", "--dry-run", "--json").document
    assert files(folder) == before and dry["dry_run"] is True
    assert [r["what"] for r in dry["removed"]] == ["stage", "stage", "stage", "history", "history"]
    freed = f"{dry['summary']['bytes'] / 1000:.1f} kB: 3 stages, 2 snapshots, {dry['summary']['files']} files"
    assert f"Would free {freed}" in folder.here("janitor", "--dry-run").out
    done = folder.here("janitor")
    assert done.code == 0 and done.err == "" and f"Freed {freed}" in done.out
    assert len(before - files(folder)) == dry["summary"]["files"]
    assert not any(e.startswith("_sqlbuild_stage.") for e in entries(folder))
    assert list((folder.root / "lake" / "data" / "_sqlbuild_stage" / "_runs").iterdir()) == [
        folder.root / "lake" / "data" / "_sqlbuild_stage" / "_runs" / "janitor"
    ]
    assert folder.here("janitor").out == "Nothing to remove.\n"
    assert garbage(folder) == set()
    assert "Nothing to do" in folder.here("build").out


def test_a_commit_without_its_history_is_repaired(folder: Folder) -> None:
    kill(folder, "before history")
    before = folder.lake()
    warning = "seeds.people: built by a run that was killed before it wrote its history"
    for arguments in ((), ("--json",)):
        done = folder.here("plan", *arguments)
        assert done.code == 0 and f"{warning}; the next build writes it" in done.out + done.err
    assert folder.lake() == before
    history = folder.here("history", "--json").document["runs"]
    assert len(history) == 1
    done = folder.here("build")
    assert done.code == 0 and f"note: {warning}; it was written now" in done.out and "Nothing to do" in done.out
    assert "note" not in folder.here("build").out and "warning" not in folder.here("plan").out
    latest, first = folder.here("history", "--json").document["runs"]
    assert first == history[0]
    (node,) = latest["nodes"]
    assert node["name"] == "seeds.people" and node["status"] == "ok" and node["rows"] == 1
    assert node["reason"] == "Recovered" and latest["run_id"] > first["run_id"]
    assert "Recovered" in folder.here("history", latest["run_id"]).out


def test_the_first_build_without_its_history(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "new")
    assert folder.sqb("build", env={"SQB_FAULT": "kill:before history:"}).code == -9
    assert "killed before it wrote its history" in folder.here("plan").out
    assert folder.here("janitor").code == 0
    assert len(folder.here("history", "--json").document["runs"][0]["nodes"]) == 2
    assert "warning" not in folder.here("plan").out


def test_what_was_edited_since_is_not_written_down(folder: Folder) -> None:
    kill(folder, "before history")
    folder.write({"seeds/people.csv": "id,name\n7,New\n"})
    assert "warning" not in folder.here("plan").out
    done = folder.here("build")
    assert done.code == 0 and "note" not in done.out
    assert [len(r["nodes"]) for r in folder.here("history", "--json").document["runs"]] == [1, 2]


def test_a_build_that_is_running_is_left_alone(folder: Folder) -> None:
    folder.write({"seeds/people.csv": "id,name\n1,New\n"})
    holding = subprocess.Popen(
        [sys.executable, "-c", _HOLD, "build", "--project-dir", str(folder.root)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holding.stdout is not None and holding.stdout.readline() == "holding\n"
        for arguments in (("--dry-run",), ()):
            done = folder.sqb("janitor", *arguments)
            assert done.code == 0 and "its build is running" in done.out and "Nothing to remove." in done.out
        (folder.root / "go").touch()
        out, _ = holding.communicate(timeout=60)
        assert holding.returncode == 0 and "[OK] seeds.people" in out
    finally:
        holding.kill()
    assert "stage" not in folder.sqb("janitor").out and garbage(folder) == set()


# A build that waits right before it publishes.
_HOLD = """
import os, sys, time
from pathlib import Path
from sqb.build import failpoints
root = Path(sys.argv[3])
def announce(step, node):
    if step == "before publish":
        print("holding", flush=True)
        while not (root / "go").exists():
            time.sleep(0.05)
failpoints.read_failpoint = lambda: announce
from sqb.cli.main import main
main()
"""


def test_settings(folder: Folder) -> None:
    for number in range(3):
        folder.write({"seeds/people.csv": f"id,name\n{number},Ada\n"})
        build_all(folder)
    toml = 'name = "shop"\n[janitor]\nsnapshot_retention = "0s"\nhistory_retention = "0s"\nkeep_snapshots = 1\n'
    folder.write({"sqlbuild_project.toml": toml})
    done = folder.here("janitor", "--json").document
    by_name = {(r["what"], r["name"]): r for r in done["removed"]}
    assert by_name["snapshots", "seeds.people"]["snapshots"] == 3
    assert by_name["history", "seeds._sqlbuild_node_results"]["rows"] == 3
    assert done["kept"] == [] and done["summary"]["snapshots"] > 3
    assert folder.here("plan").out.startswith("skip")
    assert [len(r["nodes"]) for r in folder.here("history", "--json").document["runs"]] == [1, 1]
    assert garbage(folder) == set()
    wrong = 'name = "shop"\n[janitor]\nsnapshot_retension = "0s"\nhistory_retention = "soon"\nkeep_snapshots = 0\n'
    folder.write({"sqlbuild_project.toml": wrong})
    done = folder.here("janitor", "--json")
    assert done.code == 2
    errors = [(e["code"], e["line"], e["hint"]) for e in done.document["errors"]]
    assert errors[0][:2] == ("SQB-P002", 3) and errors[0][2].startswith("did you mean 'snapshot_retention'")
    assert [e[:2] for e in errors[1:]] == [("SQB-P003", 4), ("SQB-P003", 5)]


def test_interrupted(folder: Folder) -> None:
    kill(folder, "written")
    kill(folder, "written")
    script = """
import sys
from sqb.lake.janitor import run as janitor
def interrupted(self):
    raise KeyboardInterrupt
    yield
janitor.Janitor._compact_state_tables = interrupted
from sqb.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "janitor"], cwd=folder.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Interrupted" in done.stderr and "Traceback" not in done.stderr
    assert "Freed" in done.stdout
    assert folder.here("janitor").code == 0 and garbage(folder) == set()


def test_no_java_and_quick(folder: Folder) -> None:
    done = run_sqb("janitor", cwd=folder.root, env={"JAVA_HOME": "/nowhere", "PATH": str(SQB.parent)})
    assert done.code == 0, done.err
    began = time.monotonic()
    assert "Nothing to do" in folder.sqb("build").out
    assert time.monotonic() - began < 20
    assert json.loads(folder.sqb("janitor", "--json").out)["removed"] == []
