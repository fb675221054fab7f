"""`[virtual]` in the project's files, what it refuses, and where its secrets stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.console.errors import format_error
from sqb.console.style import Paint
from sqb.errors.base import Errors
from sqb.project.config.config import load_config
from sqb.project.config.virtual import VirtualSettings
from sqb.workspace import open_workspace

NAME = 'name = "shop"\n'
DAY = 86400.0
LOCAL = '[virtual]\nstate = "postgresql://anna:s3cr3t@db/shop"\n'


def read(root: Path, text: str, errors: Errors, local: str = "") -> VirtualSettings:
    (root / "sqlbuild_project.toml").write_text(NAME + text)
    (root / "sqlbuild_local.toml").write_text(local)
    config = load_config(root, errors)
    assert config is not None
    return config.virtual


def test_without_the_section_there_are_no_environments(tmp_path: Path, errors: Errors) -> None:
    assert read(tmp_path, "", errors) == VirtualSettings()
    assert VirtualSettings() == VirtualSettings(
        False, "duckdb:///lake/state.duckdb", None, None, None, 7 * DAY, 20
    )  # fmt: skip
    assert errors.found == []


def test_all_keys(tmp_path: Path, errors: Errors) -> None:
    text = """[virtual]
enabled = true
state = "postgresql://ci@db.example:5433/sqb?sslmode=require"
unsuffixed_virtual_env = "prod"
baseline = "prod"
ttl = "14d"
grace = "12h"
keep_checkpoints = 5
"""
    state = "postgresql://ci@db.example:5433/sqb?sslmode=require"
    assert read(tmp_path, text, errors) == VirtualSettings(True, state, "prod", "prod", 14 * DAY, DAY / 2, 5)
    assert errors.found == []


@pytest.mark.parametrize(
    ("line", "kind", "message", "hint"),
    [
        ('enabled = "yes"', "BadValue", "`enabled` must be true or false", None),
        ('enable = true', "UnknownKey", "unknown key `enable` in [virtual]", "did you mean 'enabled'?"),
        ("state = 1", "BadValue", "`state` must be text", "put it in quotes"),
        ('state = "sqlite:///x"', "BadValue", "`state` must be duckdb:///path or postgresql://user@host", None),
        ('state = "postgresql://h:x/d"', "BadValue", "`state` must be a port that is a number", None),
        ('baseline = "Prod"', "BadValue", "`baseline` must be the name of an environment", "small letters, digits"),
        ('unsuffixed_virtual_env = "sqb_physical"', "BadValue", "must be the name of an environment", "not sqb_phys"),
        ('ttl = "soon"', "BadValue", "`ttl` must be a duration", 'such as "7d"'),
        ("grace = 7", "BadValue", "`grace` must be text", "put it in quotes"),
        ("keep_checkpoints = 0", "BadValue", "`keep_checkpoints` must be a whole number, 1 or more", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(
    line: str, kind: str, message: str, hint: str | None, tmp_path: Path, errors: Errors
) -> None:
    read(tmp_path, f"[virtual]\n{line}\n", errors)
    (error,) = errors.found
    assert type(error).__name__ == kind and message in error.message
    assert error.at is not None and (error.at.file, error.at.line) == ("sqlbuild_project.toml", 3)
    assert hint in (error.hint or "") if hint else error.hint is None


@pytest.mark.parametrize("address", ["postgresql://anna:s3cr3t@db/shop", "postgresql://db/shop?password=s3cr3t"])
def test_a_password_in_the_committed_file_is_refused_and_not_shown(
    address: str, tmp_path: Path, errors: Errors
) -> None:
    read(tmp_path, f'[virtual]\nstate = "{address}"\n', errors)
    (error,) = errors.found
    assert error.message == "`state` holds a password, and this file is for everybody"
    assert error.hint is not None and "sqlbuild_local.toml or SQB_STATE" in error.hint
    shown = "\n".join(format_error(error, tmp_path, Paint()))
    assert "s3cr3t" not in shown and "******" in shown and "^" * (len(address) + 2) in shown


@pytest.mark.parametrize("address", ["mysql://anna:s3cr3t@db/shop", "postgresql://anna:s3cr3t@db:x/shop"])
def test_an_address_that_is_wrong_is_not_shown_with_its_password(address: str, tmp_path: Path, errors: Errors) -> None:
    read(tmp_path, f'[virtual]\nstate = "{address}"\n', errors)
    (error,) = errors.found
    assert "s3cr3t" not in "\n".join(format_error(error, tmp_path, Paint()))


def test_the_local_file_may_hold_a_password(tmp_path: Path, errors: Errors) -> None:
    settings = read(tmp_path, "[virtual]\nenabled = true\n", errors, LOCAL)
    assert settings.enabled and settings.state == "postgresql://anna:s3cr3t@db/shop"
    assert "s3cr3t" not in repr(settings) and errors.found == []


@pytest.mark.parametrize("key", ['reuse_from = "prod"', 'defer_sources_to = "prod"'])
def test_targets_that_look_at_another_do_not_go_with_environments(
    key: str, tmp_path: Path, errors: Errors, seen: Callable[[], Any]
) -> None:
    targets = f'[targets.dev]\nschema = "dev"\n{key}\n[targets.prod]\nschema = "prod"\n'
    read(tmp_path, "[virtual]\nenabled = true\n" + targets, errors)
    place = "sqlbuild_project.toml:6:1"
    assert seen() == [("Contradiction", place, "remove this line, or `enabled` under [virtual]")]


def test_they_do_where_environments_are_off(tmp_path: Path, errors: Errors) -> None:
    targets = '[targets.dev]\nschema = "dev"\nreuse_from = "prod"\n[targets.prod]\nschema = "prod"\n'
    read(tmp_path, "[virtual]\nenabled = false\n" + targets, errors)
    assert errors.found == []


# --- the cache --------------------------------------------------------------------------------------------------------


def everything_in(folder: Path) -> str:
    return "\n".join(p.read_text() for p in folder.rglob("*") if p.is_file())


def test_a_password_never_reaches_the_cache(tmp_path: Path, errors: Errors) -> None:
    read(tmp_path, "[virtual]\nenabled = true\n", errors, LOCAL)
    first, second = open_workspace(tmp_path), open_workspace(tmp_path)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first.virtual == second.virtual and second.virtual.state == "postgresql://anna:s3cr3t@db/shop"
    assert "s3cr3t" not in everything_in(tmp_path / ".sqb")


def test_the_variable_overrides_the_files_whatever_the_cache_says(
    tmp_path: Path, errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(tmp_path, "[virtual]\nenabled = true\n", errors)
    monkeypatch.setenv("SQB_STATE", "postgresql://ci:s3cr3t@db/ci")
    assert open_workspace(tmp_path).virtual.state == "postgresql://ci:s3cr3t@db/ci"
    again = open_workspace(tmp_path)
    assert again.from_cache and again.virtual.state == "postgresql://ci:s3cr3t@db/ci"
    monkeypatch.setenv("SQB_STATE", "postgresql://ci@other/ci")
    assert open_workspace(tmp_path).virtual.state == "postgresql://ci@other/ci"
    monkeypatch.delenv("SQB_STATE")
    assert open_workspace(tmp_path).virtual == VirtualSettings(enabled=True)
    assert "s3cr3t" not in everything_in(tmp_path / ".sqb")
