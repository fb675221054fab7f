"""`sqb engine` without Spark: what it says, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sqb.cli.main import run
from sqb.console.engine import format_started, format_status, format_stopped
from sqb.engine import start
from sqb.engine.descriptor import EngineDescriptor
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.start import StartedEngine
from sqb.engine.status import EngineState, Usage, inspect_engine
from sqb.engine.stop import StoppedEngine
from sqb.operations.engine import EngineStatus
from sqb.workspace import open_workspace
from support.fake_engine import COMMAND
from unit.folders import write

ENGINE = EngineDescriptor(
    "local",
    "abc",
    "0.1.0",
    "4.1.4",
    "here x",
    11,
    "1",
    12,
    "2",
    15002,
    "secret",
    1e9,
    1800.0,
    "/p/engine.log",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = write(tmp_path / "shop", {})
    monkeypatch.chdir(root)
    # The command that `start` takes when it is given none.
    monkeypatch.setattr(start.start_engine, "__defaults__", (COMMAND,))
    yield root
    run(["engine", "stop", "--now"])


def test_from_start_to_stop(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "status"]) == 1
    assert capsys.readouterr().out.startswith("No engine is running: builds start Spark themselves.")
    assert run(["engine", "start", "--json"]) == 0
    started = json.loads(capsys.readouterr().out)
    assert (started["status"], started["started"], started["idle_timeout"]) == ("running", True, 1800)
    assert run(["engine", "start"]) == 0
    assert capsys.readouterr().out.startswith("The engine is running already (connection local, pid ")
    assert run(["engine", "status", "--json", "--debug"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["in_use"] is False
    token = json.loads((project / ".sqb" / "engine.json").read_text())["token"]
    assert token not in text and token not in json.dumps(started)
    assert run(["engine", "stop"]) == 0
    assert capsys.readouterr().out == "Stopped the engine.\n"
    assert run(["engine", "stop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "stopped", "stopped": False}


@pytest.mark.parametrize("given", ["soon", "0s", "", "10"])
def test_an_idle_timeout_is_a_duration(project: Path, capsys: pytest.CaptureFixture[str], given: str) -> None:
    assert run(["engine", "start", "--idle-timeout", given]) == 2
    assert f'--idle-timeout: "{given}" is not a duration of a second or more' in capsys.readouterr().err


def test_stop_needs_nothing_of_the_project_but_its_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"sqlbuild_project.toml": "broken ="})
    assert run(["engine", "stop"]) == 0
    assert run(["engine", "status"]) == 2
    assert run(["engine", "start", "--target", "nope"]) == 2


def test_models_are_none_of_its_business(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One needs a variable that the command line of builds gives; the other is wrong.
    write(project, {"models/a.sql": "SELECT @@day AS d", "models/b.sql": "SELECT FROM WHERE"})
    assert run(["plan"]) == 2
    assert run(["engine", "start"]) == 0
    assert run(["engine", "status"]) == 0
    assert capsys.readouterr().out.startswith("Started the engine: connection local, pid ")
    # What a build wants that has the variable is the same engine.
    (project / "models" / "b.sql").unlink()
    workspace = open_workspace(project, variables={"day": 1})
    assert inspect_engine(workspace.folder, compute_requirements(workspace)).status == "running"
    assert run(["engine", "start", "--target", "nope"]) == 2
    assert 'there is no target "nope"' in capsys.readouterr().err


def test_a_connection_that_works_on_a_server_needs_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"sqlbuild_project.toml": 'name = "shop"\n[connections.big.spark]\nremote = "sc://host:15002"\n'})
    assert run(["engine", "status"]) == 1
    message = "builds use the Spark Connect server of the connection big, which runs already"
    assert capsys.readouterr().out == f"No engine is needed: {message}.\n"
    assert run(["engine", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"status": "stopped", "why": message}
    lines = list(
        format_status(
            EngineStatus(EngineState("other", ENGINE, "it is of the connection local"), Usage(False, 1.0, 2.0), "big")
        )
    )
    assert lines[1] == "There is one of the connection local (pid 11, port 15002)."


def test_unknown_words_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "restart"]) == 2
    assert run(["engine", "start", "--idle", "3m"]) == 2


def test_lines_say_what_builds_do_with_it() -> None:
    used = Usage(False, 75.0, 600.0)
    running = list(format_status(EngineStatus(EngineState("running", ENGINE), used)))
    assert running[:2] == [
        "The engine is running (connection local, pid 11, port 15002).",
        "Started 10 minutes ago; idle for 1 minute; it ends after 30 minutes without work.",
    ]
    busy = list(format_status(EngineStatus(EngineState("running", ENGINE), replace(used, in_use=True))))
    assert "a build works with it" in busy[1]
    for status, why, then in (
        ("dead", "its process is gone", "The next build replaces it, `sqb engine stop` forgets it."),
        ("stale", "it was started with other settings", "The next build replaces it."),
        ("other", "it is of the connection cluster", "Builds start Spark themselves."),
    ):
        lines = list(format_status(EngineStatus(EngineState(status, ENGINE, why), used)))  # type: ignore[arg-type]
        assert lines[0].startswith(f"The engine cannot be used: {why} (") and lines[1] == then
    assert list(format_status(EngineStatus(EngineState("starting"), None))) == ["The engine is starting."]
    assert "in the place of another (its process is gone)" in format_started(
        StartedEngine(ENGINE, True, "its process is gone")
    )
    assert format_stopped(StoppedEngine(True, False)) == "The engine had ended already; it is forgotten."
    assert "secret" not in json.dumps(EngineStatus(EngineState("running", ENGINE), used).to_data())
