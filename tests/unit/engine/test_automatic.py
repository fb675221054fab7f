"""An engine is left for the next command at a terminal, and nowhere else unless that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sqb.engine import automatic, start
from sqb.engine.automatic import VARIABLE, leave_engine, read_mode, wants_engine
from sqb.engine.failures import read_failure, record_failure
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.start import launch_engine
from sqb.engine.status import inspect_engine
from sqb.engine.stop import stop_engine
from sqb.errors.connections import SparkUnfit
from sqb.workspace import Workspace, open_workspace
from support.fake_engine import COMMAND
from unit.folders import write

LEFT = "Spark stays ready for 10 minutes, so that the next command need not wait for it ("


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in automatic._UNATTENDED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(automatic, "_is_root_in_container", lambda _: False)
    monkeypatch.setattr(automatic, "_has_memory", lambda: True)
    opened = open_workspace(write(tmp_path / "shop", {}))
    yield opened
    stop_engine(opened.folder, True, lambda _: None)
    for process in start._LAUNCHED:
        process.wait(60)
    start._LAUNCHED.clear()


@pytest.mark.parametrize(
    ("mode", "is_terminal", "environment", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"CI": "true"}, False),
        ("auto", True, {"CI": "false"}, True),
        ("auto", True, {"JENKINS_URL": "https://ci"}, False),
        ("auto", True, {"AIRFLOW_CTX_DAG_ID": "daily"}, False),
        ("on", False, {"CI": "true"}, True),
        ("off", True, {}, False),
        ("off", False, {VARIABLE: "on"}, True),
        ("on", True, {VARIABLE: "off"}, False),
        ("on", False, {VARIABLE: "auto"}, False),
        ("auto", True, {VARIABLE: "nonsense"}, True),
    ],
)
def test_when_an_engine_is_left(
    workspace: Workspace, mode: str, is_terminal: bool, environment: Mapping[str, str], expected: bool
) -> None:
    assert wants_engine(replace(workspace, engine=mode), is_terminal, environment) is expected  # type: ignore[arg-type]


def test_not_as_root_in_a_container(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(automatic, "_IN_CONTAINER", ("/",))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert not wants_engine(workspace, True, {})
    assert wants_engine(replace(workspace, engine="on"), True, {})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert wants_engine(workspace, True, {})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(automatic, "_IN_CONTAINER", ())
    assert wants_engine(workspace, True, {})
    assert not wants_engine(workspace, True, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_a_connection_on_a_server_needs_none(tmp_path: Path) -> None:
    files = {
        "sqlbuild_project.toml": 'name = "x"\nengine = "on"\n[connections.big.spark]\nremote = "sc://host:15002"\n'
    }
    assert not wants_engine(open_workspace(write(tmp_path, files)), True, {})


def test_the_setting_is_read_and_cached(tmp_path: Path) -> None:
    root = write(tmp_path, {"sqlbuild_project.toml": 'name = "x"\nengine = "off"\n'})
    assert [open_workspace(root).engine for _ in range(2)] == ["off", "off"]
    assert open_workspace(root).from_cache
    assert read_mode(open_workspace(root), {}) == "off"


def test_it_starts_while_nobody_waits_and_is_told_once(workspace: Workspace, tmp_path: Path) -> None:
    assert leave_engine(workspace, True, COMMAND).startswith(LEFT)
    # Another command finds it, or its start.
    assert not launch_engine(workspace, None, 60.0, COMMAND)
    for _ in range(600):
        state = inspect_engine(workspace.folder, compute_requirements(workspace))
        if state.status == "running":
            break
        assert state.status == "starting"
        automatic_pause()
    assert state.description is not None and state.description.idle == 600.0
    assert leave_engine(workspace, True, COMMAND) == ""
    stop_engine(workspace.folder, True, lambda _: None)
    assert leave_engine(workspace, True, COMMAND) == "", "it is left again, and was told before"


def automatic_pause() -> None:
    import time

    time.sleep(0.1)


def test_what_failed_is_not_tried_after_every_command(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "refuses")
    leave_engine(workspace, True, COMMAND)
    start._LAUNCHED[-1].wait(120)
    assert read_failure(workspace.folder) == "no jars today"
    assert len(start._LAUNCHED) == 1
    assert leave_engine(workspace, True, COMMAND) == "" and len(start._LAUNCHED) == 1
    # Whoever asks for one is told why; one that starts makes the failure forgotten.
    monkeypatch.delenv("FAKE_ENGINE")
    start.start_engine(workspace, None, 60.0, lambda _: None, COMMAND)
    assert read_failure(workspace.folder) is None


def test_what_is_missing_is_told_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Workspace) -> None:
        raise SparkUnfit("it needs grpc", hint="install it")

    monkeypatch.setattr(start, "refuse_unneeded", refuse)
    message = leave_engine(workspace, True, COMMAND)
    assert message.startswith("Spark cannot stay ready for the next command: it needs grpc (install it; `engine = ")
    assert leave_engine(workspace, True, COMMAND) == ""


def test_a_folder_that_cannot_be_written_is_no_failure(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(start, "acquire_supervision", refuse)
    assert leave_engine(workspace, True, COMMAND) == ""


def test_an_old_failure_is_forgotten(tmp_path: Path) -> None:
    import os

    record_failure(tmp_path, "no")
    assert read_failure(tmp_path) == "no"
    os.utime(tmp_path / "engine.failed", (0, 0))
    assert read_failure(tmp_path) is None
