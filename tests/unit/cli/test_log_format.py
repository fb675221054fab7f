"""`--log-format json`: one event a line while a run goes on, with the run's id, which `--json` and history have too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqb.build.events import NodeSaid, NodeWaiting, Notice, PhaseStarted, Progress, SparkStarted, UnitTestsDone
from sqb.cli.main import run
from sqb.console.inspect.history import format_history
from sqb.console.style import cut_text
from sqb.operations.event_log import encode_event
from sqb.operations.inspect.history import HistoryOptions, read_history
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {"seeds/a.csv": "id\n1\n", "seeds/b.csv": "id\n1\n2\n"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, FILES))
    monkeypatch.setattr("sys.argv", ["sqb"])
    return tmp_path


def read_events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_build(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "--log-format", "json"]) == 0
    result = capsys.readouterr()
    events = read_events(result.out)
    assert events[0]["event"] == "run_started" and events[0]["command"] == "build" and events[0]["target"] == "dev"
    done = {e["name"]: e for e in events if e["event"] == "node_done"}
    assert (done["seeds.b"]["status"], done["seeds.b"]["rows"], done["seeds.b"]["error"]) == ("ok", 2, None)
    assert {e["name"] for e in events if e["event"] == "node_started"} == {"seeds.a", "seeds.b"}
    last = events[-1]
    assert (last["event"], last["status"], last["ran"]) == ("run_done", "ok", 2)
    assert len({e["run_id"] for e in events}) == 1 and all(e["ts"].endswith("Z") for e in events)
    # The same id finds the run in the history.
    assert run(["history", last["run_id"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["run_id"] == last["run_id"]


def test_beside_a_document_events_are_on_standard_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "--json", "--log-format=json"]) == 0
    result = capsys.readouterr()
    assert json.loads(result.out)["run_id"] == read_events(result.err)[0]["run_id"]
    # Nothing to do is a run too.
    assert run(["build", "--log-format", "json"]) == 0
    assert [e["event"] for e in read_events(capsys.readouterr().out)] == ["run_started", "run_done"]


def test_mistakes_of_projects_and_calls(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "-s", "nobody", "--log-format", "json"]) == 2
    result = capsys.readouterr()
    begun, error, done = read_events(result.out)
    assert (error["code"], error["message"], result.err) == ("SQB-C003", 'nothing is called "nobody"', "")
    assert error["ts"].endswith("Z") and begun["run_id"] == error["run_id"] == done["run_id"]
    assert (done["event"], done["status"]) == ("run_done", "failed")
    assert run(["build", "-s", "nobody", "--log-format", "json", "--json"]) == 2
    result = capsys.readouterr()
    assert [e["event"] for e in read_events(result.err)] == ["run_started", "error", "run_done"]
    assert json.loads(result.out)["errors"][0]["code"] == "SQB-C003"
    write(project, {"seeds/b.csv": "id\n1\nx\n", "seeds/b.yml": "columns:\n  id: int\n"})
    assert run(["build", "--log-format", "json"]) == 2
    (error,) = read_events(capsys.readouterr().out)
    assert (error["event"], error["code"], error["file"], error["line"]) == ("error", "SQB-P012", "seeds/b.csv", 3)
    assert error["run_id"] is None and error["ts"].endswith("Z")


def test_ctrl_c_before_there_is_a_result_ends_the_log(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sqb.cli.commands.build.build.build_project", interrupt)
    assert run(["build", "--log-format", "json"]) == 1
    assert [(e["event"], e.get("status")) for e in read_events(capsys.readouterr().out)] == [
        ("run_started", None),
        ("run_done", "interrupted"),
    ]


def test_every_event_is_data_or_nothing() -> None:
    assert encode_event(NodeSaid("load: hi")) == {"event": "node_said", "text": "load: hi"}
    assert encode_event(Notice("n")) == {"event": "notice", "text": "n"}
    assert encode_event(SparkStarted(1.23456)) == {"event": "spark_started", "seconds": 1.235}
    assert encode_event(UnitTestsDone((), 0.5)) == {"event": "tests_done", "passed": 0, "failed": 0, "seconds": 0.5}
    assert encode_event(Progress("waiting")) == {"event": "progress", "text": "waiting"}
    assert encode_event(Progress("")) is encode_event(NodeWaiting("x")) is encode_event(PhaseStarted("x")) is None


def test_history_tells_environments_apart_and_fits_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = 'name = "shop"\n[virtual]\nenabled = true\n'
    many = {f"seeds/a_seed_with_quite_a_long_name_{n}.csv": "id\n1\n" for n in range(4)}
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": toml, **many}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["build"]) == 0
    write(tmp_path, {"sqlbuild_project.toml": toml, "seeds/a_seed_with_quite_a_long_name_1.csv": "id\n2\n"})
    assert run(["build", "--virtual-env", "pr"]) == 0
    capsys.readouterr()
    assert run(["history"]) == 0
    header, _, newest, oldest = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["run", "environment"]
    assert (newest.split()[1], oldest.split()[1]) == ("pr", "dev")
    assert run(["history", "--virtual-env", "pr", "--json"]) == 0
    assert [r["environment"] for r in json.loads(capsys.readouterr().out)["runs"]] == ["pr"]
    history = read_history(open_workspace(tmp_path), HistoryOptions())
    for width in (80, 100):
        lines = list(format_history(history, HistoryOptions(), width))
        assert max(map(len, lines)) == width and lines[-1].endswith("…")
        # The columns give way to what each run did.
        assert "seeds.a_seed_with_q" in lines[2] and ("at (UTC)" in lines[0]) is (width == 100)
    (run_id, *_) = history.runs
    (nodes,) = [read_history(open_workspace(tmp_path), HistoryOptions(run_id=run_id))]
    header, _, line = format_history(nodes, HistoryOptions(run_id=run_id), 80)
    assert header.split()[0] == "node" and line.endswith("Query changed") and run_id not in line


def test_texts_are_cut_by_the_room_that_they_take() -> None:
    assert cut_text("abc", 3) == "abc" and cut_text("abcd", 3) == "ab…" and cut_text("abcd", None) == "abcd"
    assert cut_text("漢字漢字", 5) == "漢字…"
