"""When dbt must be asked again about its project."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.dbt.command import Dbt, DbtArguments, build_dbt, build_error
from sqb.dbt.project.cache import read_current, read_inputs, write_project
from sqb.errors.dbt import DbtRefused, NoDbtProfile
from sqb.project.config.dbt import DbtSettings
from unit.dbt.small_project import project
from unit.folders import write

FILES = {
    "dbt/dbt_project.yml": "name: shop\nmodel-paths: [models, more]\n",
    "dbt/profiles.yml": "shop: {schema: \"{{ env_var('SHOP_SCHEMA', 'x') }}\"}\n",
    "dbt/models/a.sql": "select 1",
    "dbt/more/b.sql": "select 2",
    "dbt/target/manifest.json": "{}",
    "bin/dbt": "#!/bin/sh\n",
}


@pytest.fixture
def dbt(tmp_path: Path) -> Dbt:
    write(tmp_path, FILES)
    (tmp_path / "bin" / "dbt").chmod(0o755)
    old = time.time() - 100
    for path in tmp_path.rglob("*"):
        os.utime(path, (old, old))
    result = build_dbt(tmp_path, DbtSettings("dbt", command=("bin/dbt",)))
    write_project(result, read_inputs(result), project())
    return result


def test_what_is_known_is_used_while_nothing_changed(dbt: Dbt) -> None:
    assert read_current(dbt) == project()


def _write(name: str, text: str = "select 3") -> Callable[[Path], object]:
    return lambda root: write(root, {name: text})


@pytest.mark.parametrize(
    "change",
    [
        _write("dbt/models/a.sql"),
        _write("dbt/more/new.sql"),
        _write("dbt/dbt_project.yml", "name: shop\n"),
        _write("dbt/packages.yml"),
        _write("dbt/dbt_packages/p/macros/m.sql"),
        _write("dbt/profiles.yml", "shop: {}\n"),
        lambda root: (root / "dbt/more/b.sql").unlink(),
        lambda root: (root / "bin" / "dbt").write_text("#!/bin/sh\n# new\n"),
    ],
)
def test_everything_that_dbt_reads_counts(dbt: Dbt, change: Callable[[Path], object]) -> None:
    change(dbt.root)
    assert read_current(dbt) is None


@pytest.mark.parametrize("name", ["dbt/target/run_results.json", "dbt/logs/dbt.log", "dbt/notes.txt", "dbt/.git/x.sql"])
def test_what_dbt_does_not_read_does_not(dbt: Dbt, name: str) -> None:
    write(dbt.root, {name: "x"})
    assert read_current(dbt) is not None


def test_a_file_that_was_only_touched_is_the_same(dbt: Dbt) -> None:
    os.utime(dbt.project_dir / "models/a.sql")
    assert read_current(dbt) is not None


def test_environment_variables_that_files_name_count(dbt: Dbt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    assert read_current(dbt) is not None
    monkeypatch.setenv("SHOP_SCHEMA", "y")
    assert read_current(dbt) is None
    # It may be a secret: its value is nowhere in the cache.
    monkeypatch.setenv("SHOP_SCHEMA", "a-secret-value")
    write_project(dbt, read_inputs(dbt), project())
    assert "a-secret-value" not in (dbt.root / ".sqb/cache/dbt.json").read_text()
    assert read_current(dbt) is not None


def test_another_call_is_another_project(dbt: Dbt) -> None:
    other = Dbt(dbt.root, dbt.command, dbt.project_dir, dbt.profiles_dir, dbt.target_path, DbtArguments("prod"))
    assert read_current(other) is None


def test_a_missing_profile_is_told_before_dbt_starts(tmp_path: Path) -> None:
    write(tmp_path, {"dbt/dbt_project.yml": "name: shop\n"})
    with pytest.raises(NoDbtProfile, match="there is no profiles"):
        build_dbt(tmp_path, DbtSettings("dbt", profiles_dir="profiles"))


def test_what_dbt_says_becomes_an_error_with_its_place(dbt: Dbt) -> None:
    messages = (
        "\x1b[0m14:59:49  Encountered an error:\nCompilation Error in model a (models/a.sql)\n  oh\n    line 1\n      x"
    )
    error = build_error(dbt, "ls", messages)
    assert isinstance(error, DbtRefused)
    assert str(error.at) == "dbt/models/a.sql:1:1"
    assert error.message.splitlines()[:2] == ["dbt ls failed: Compilation Error in model a (models/a.sql)", "  oh"]
    assert isinstance(build_error(dbt, "ls", "Runtime Error\n  Could not find profile named 'x'"), NoDbtProfile)
    nowhere = "Usage: dbt ls\nError: Invalid value for '--profiles-dir': Path '/root/.dbt' does not exist."
    assert isinstance(build_error(dbt, "ls", nowhere), NoDbtProfile)
