"""A command with nothing to do loads nothing heavy and starts no Java."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from unit.folders import TOML, write

HEAVY = ("pyspark", "py4j", "pyiceberg", "sqlglot", "pyarrow", "yaml", "rich", "sqlalchemy", "pydantic", "pandas")
# Of catalogs and environments that this project does not have.
DATABASES = ("duckdb", "psycopg")
_IMPORTED = re.compile(r"import time:.*\|\s*([\w.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Java home whose `java` leaves a mark when anybody starts it."""
    home = tmp_path_factory.mktemp("java")
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch '{home}/started'\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return home


def run(root: Path, trap: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run `sqb` and say which top-level packages it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from sqb.cli.main import main; main()", *arguments],
        cwd=root,
        env={
            **os.environ,
            "JAVA_HOME": str(trap),
            "PATH": f"{trap / 'bin'}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, {name.partition(".")[0] for name in _IMPORTED.findall(done.stderr)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, trap: Path) -> Path:
    """A project of seeds, which are loaded without Spark, built once."""
    root = tmp_path_factory.mktemp("project")
    write(
        root,
        {
            "sqlbuild_project.toml": TOML,
            "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
            "seeds/places.csv": "id,place\n1,London\n",
            "seeds/places.yml": "columns:\n  id: int\n",
        },
    )
    done, _ = run(root, trap, "build")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Done: 2 ran, 0 skipped, 0 failed (3 rows,")
    return root


def test_seeds_are_built_without_java(built: Path, trap: Path) -> None:
    assert not (trap / "started").exists()
    assert (built / "lake" / "catalog.db").exists()


@pytest.mark.parametrize(
    "command", [["plan"], ["build"], ["plan", "--json"], ["build", "--json"], ["run", "-v"], ["ls"]]
)
def test_nothing_to_do_loads_nothing_heavy(built: Path, trap: Path, command: list[str]) -> None:
    done, imported = run(built, trap, *command)
    assert done.returncode == 0, done.stderr
    assert imported & {*HEAVY, *DATABASES} == set()
    assert not (trap / "started").exists()


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory, trap: Path) -> Path:
    """A project of seeds in two virtual environments."""
    root = tmp_path_factory.mktemp("virtual")
    seeds = {"seeds/people.csv": "id,name\n1,Ada\n2,Grace\n", "seeds/places.csv": "id,place\n1,London\n"}
    write(root, {"sqlbuild_project.toml": f"{TOML}\n[virtual]\nenabled = true\n", **seeds})
    for environment in ("dev", "pr"):
        done, _ = run(root, trap, "build", "--virtual-env", environment)
        assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("command", [["build"], ["plan", "--virtual-env", "pr"], ["build", "--virtual-env", "pr"]])
def test_environments_that_are_up_to_date_load_nothing_heavy(virtual: Path, trap: Path, command: list[str]) -> None:
    done, imported = run(virtual, trap, *command)
    assert done.returncode == 0, done.stderr
    assert imported & set(HEAVY) == set()
    assert not (trap / "started").exists()


@pytest.mark.parametrize("command", [["test"], ["test", "--json"], ["plan"]])
def test_unit_tests_that_passed_load_nothing_heavy(tmp_path: Path, trap: Path, command: list[str]) -> None:
    from sqb.build.unit_tests.passed_cache import InputStates, PassedTestCache, compute_key, compute_tokens
    from sqb.lake.iceberg import IcebergLake
    from sqb.workspace import open_workspace

    files = {"models/m.sql": "SELECT 1 AS id", "tests/t.yml": "tests: [{name: a, model: m, expect: [{id: 1}]}]"}
    workspace = open_workspace(write(tmp_path, files))
    (test,) = workspace.project.tests
    key = compute_key(test, compute_tokens(test, workspace.project, InputStates({})))
    PassedTestCache(workspace, IcebergLake(workspace.lake_location)).record([(test, key)], "run")
    done, imported = run(tmp_path, trap, *command)
    assert done.returncode == 0, done.stderr
    assert ("unchanged" if command[0] == "test" else "Plan: 1 to run") in done.stdout
    assert "Unit tests:" not in done.stdout
    # A plan of a model that has to run looks at its query.
    assert imported & (set(HEAVY) - ({"sqlglot"} if command == ["plan"] else set())) == set()
    assert not (trap / "started").exists()


@pytest.mark.parametrize("command", [["freshness"], ["freshness", "--json"], ["plan"]])
def test_sources_that_were_observed_before_load_nothing_heavy(tmp_path: Path, trap: Path, command: list[str]) -> None:
    from sqb.lake.iceberg import IcebergLake
    from sqb.names import Relation
    from sqb.project.config.connections.lake_location import LakeLocation
    from unit.build.observe.test_sources import put

    column = "{name: raw.x, freshness: {column: ts, type: timestamp}}"
    text = f"sources:\n- {column}\n- {{name: raw.y}}\n- {{name: f, path: f.csv}}\n"
    write(tmp_path, {"sources/s.yml": text, "f.csv": "id", "seeds/a.csv": "id\n1\n"})
    lake = IcebergLake(LakeLocation.embedded(tmp_path / "lake" / "catalog.db", tmp_path / "lake" / "data"))
    put(lake, "raw.x", 0)
    put(lake, "raw.y", 0)
    assert Relation("raw", "x") in lake.list_pointers()
    run(tmp_path, trap, "build")
    run(tmp_path, trap, *command)
    done, imported = run(tmp_path, trap, *command)
    assert done.returncode == 0, done.stderr
    assert imported & set(HEAVY) == set()
    assert not (trap / "started").exists()


def test_a_comment_in_a_seeds_settings_is_still_nothing_to_do(built: Path, trap: Path) -> None:
    with open(built / "seeds" / "places.yml", "a") as file:
        file.write("# no other columns\n")
    done, imported = run(built, trap, "build")
    assert done.stdout.splitlines()[-1].startswith("Done: 0 ran, 2 skipped, 0 failed (0 rows,")
    assert imported & {"pyspark", "py4j", "pyiceberg", "pyarrow"} == set()


@pytest.mark.parametrize("command", [["--help"], ["build", "--help"], ["--version"], ["biuld"], ["plan", "--nope"]])
def test_help_and_wrong_calls_load_nothing_heavy(built: Path, trap: Path, command: list[str]) -> None:
    _, imported = run(built, trap, *command)
    assert imported & set(HEAVY) == set()


@pytest.mark.parametrize(
    "module",
    [
        "sqb.plan.decide",
        "sqb.plan.observed",
        "sqb.compile.model",
        "sqb.workspace",
        "sqb.graph",
        "sqb.identity",
        "sqb.lake.catalog.sqlite",
        "sqb.lake.catalog.postgres",
        "sqb.lake.catalog.rest.catalog",
    ],
)
def test_planning_can_be_imported_alone(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & {*HEAVY, "click"} == set()


def test_handing_a_command_over_loads_next_to_nothing() -> None:
    code = "import sys; import sqb.cli.entry, sqb.engine.hand_over; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded & {*HEAVY, *DATABASES, "click", "dataclasses", "inspect", "pathlib", "subprocess", "hashlib"} == set()
    assert len({m for m in loaded if m.startswith("sqb")}) < 12


def test_importing_sqb_is_light() -> None:
    code = "import sys; before = set(sys.modules); import sqb; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {m.partition(".")[0] for m in done.stdout.split()} & {
        "dataclasses",
        "inspect",
        "json",
        "ast",
        "click",
    } == set()
    assert {m for m in done.stdout.split() if m.startswith("sqb")} == {
        "sqb",
        "sqb.decorators",
        # Empty packages: loaded so that `sqb.plan` and `sqb.build` stay the functions that people call.
        "sqb.build",
        "sqb.plan",
    }


def list_imported(code: str, folder: Path) -> set[str]:
    """The top-level packages that are loaded when some code has run."""
    code += "\nimport sys\nprint(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_api_loads_nothing_heavy_before_it_is_needed(built: Path) -> None:
    heavy = {*HEAVY, "click"}
    assert list_imported("import sqb", built) & {*heavy, "sqlite3", "json"} == set()
    list_imported("import sqb; sqb.Project().build()", built)
    used = "import sqb; p = sqb.Project(); plan = p.plan(); str(plan); assert not p.build(plan).ran; p.nodes"
    assert list_imported(used, built) & heavy == set()
