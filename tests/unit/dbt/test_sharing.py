"""Whether dbt can work on the Spark of sqb's builds, and what it is told of it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from sqb.dbt.command import Dbt
from sqb.dbt.sharing import build_environment, find_python, reserve_port, share_spark, split_token
from sqb.project.config.connections.model import SparkSettings
from sqb.workspace import Workspace, open_workspace

ADDRESS = "sc://spark.example:15002/;use_ssl=true;token=a%2Fb;user_id=ada"


@pytest.fixture
def messages() -> Iterator[list[str]]:
    yield []


def remote_workspace(root: Path) -> Workspace:
    (root / "sqlbuild_project.toml").write_text('name = "shop"\n')
    opened = open_workspace(root, None)
    return replace(opened, connection=replace(opened.connection, spark=SparkSettings(remote=ADDRESS)))


def dbt_with(root: Path, python: str, profile: str = "shop: {}\n") -> Dbt:
    """A dbt whose script says that it runs in `python`, which is a shell script."""
    (root / "profiles.yml").write_text(profile)
    interpreter, script = root / "python3", root / "dbt"
    interpreter.write_text(f"#!/bin/sh\n{python}\n")
    script.write_text(f"#!{interpreter}\n")
    for path in (interpreter, script):
        path.chmod(0o755)
    return Dbt(root, (str(script),), root, root, root / "target")


def test_dbt_gets_the_server_of_the_connection(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER", raising=False)
    dbt = dbt_with(tmp_path, f"echo {metadata.version('pyspark')}")
    with share_spark(dbt, remote_workspace(tmp_path), messages.append) as shared:
        assert shared.environment == {
            "SPARK_REMOTE": "sc://spark.example:15002/;use_ssl=true;user_id=ada",
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": "a/b",
        }
    assert messages == []
    # What is handed on is in no text that shows the value.
    assert "a/b" not in repr(shared)


@pytest.mark.parametrize(
    ("python", "profile", "why"),
    [
        ("exit 1", "", "its Python environment lacks what PySpark needs to use a Spark server"),
        ("echo 3.5.0", "", f"it has PySpark 3.5.0, and sqb has {metadata.version('pyspark')}"),
        ("exit 1", "      spark.master: local[2]\n", "profiles.yml sets spark.master"),
    ],
)
def test_dbt_that_cannot_use_a_server_keeps_its_own_spark(
    tmp_path: Path, messages: list[str], python: str, profile: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER", raising=False)
    dbt = dbt_with(tmp_path, python, profile)
    with share_spark(dbt, remote_workspace(tmp_path), messages.append) as shared:
        assert shared == dbt and not shared.environment
    assert len(messages) == 1 and messages[0].startswith(f"dbt starts a Spark of its own: {why}")


def test_without_a_server_dbt_is_told_of_none(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER", raising=False)
    (tmp_path / "sqlbuild_project.toml").write_text('name = "shop"\n')
    dbt = dbt_with(tmp_path, f"echo {metadata.version('pyspark')}")
    with share_spark(dbt, open_workspace(tmp_path, None), messages.append) as shared:
        assert not shared.environment
    assert messages[0].startswith("dbt starts a Spark of its own: no engine runs")


def test_an_address_and_its_token() -> None:
    assert split_token("sc://host:1") == ("sc://host:1", None)
    assert split_token(ADDRESS) == ("sc://spark.example:15002/;use_ssl=true;user_id=ada", "a/b")


def test_an_engine_of_this_machine_is_reached_past_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_grpc_proxy", raising=False)
    monkeypatch.setenv("no_proxy", "intra.example")
    assert build_environment("sc://localhost:7", "t")["no_grpc_proxy"] == "intra.example,localhost"
    assert "no_grpc_proxy" not in build_environment("sc://host:7", "t")


def test_nobody_else_may_listen_where_the_token_could_go() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as other:
        try:
            other.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no address ::1")
        other.listen()
        port = other.getsockname()[1]
        assert reserve_port("::1", port) is None
    guard = reserve_port("::1", port)
    assert guard is not None
    with guard, socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as late, pytest.raises(OSError):
        late.bind(("::1", port))


def test_the_python_of_a_command(tmp_path: Path) -> None:
    script = tmp_path / "dbt"
    script.write_text(f"#!{sys.executable}\n")
    assert find_python((str(script),)) == sys.executable
    assert find_python((sys.executable, "-m", "dbt")) == sys.executable
    script.write_text("#!/usr/bin/env python3\n")
    assert find_python((str(script),)) is not None
    script.write_text("#!/bin/sh\n")
    assert find_python((str(script),)) is None
    assert find_python((str(tmp_path / "none"),)) is None
