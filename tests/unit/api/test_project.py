"""The Python API does what the command line does, and returns what that prints; nothing here starts Spark."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sqb
from sqb import errors, events
from sqb.api.listener import StopEvent
from sqb.cli import main
from sqb.errors.build import BuildFailed
from sqb.errors.call import PlanOutOfDate
from unit.folders import write

PYTHON = """
import os
import time

from sqb import task


@task(depends_on="seed:people", description="Says hello.")
def greet(ctx):
    if os.path.exists("broken"):
        raise ValueError("not today")
    print("hello")


@task(depends_on="greet")
def leave(ctx):
    if os.path.exists("slow"):
        time.sleep(60)
"""
FILES = {
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
    "python/tasks.py": PYTHON,
}
TARGETS = 'name = "shop"\n[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "shop", FILES)


@pytest.fixture
def project(folder: Path) -> sqb.Project:
    return sqb.Project(folder)


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    """What a command says, and its exit code."""
    capsys.readouterr()
    code = main.run([*arguments, "--project-dir", str(folder)])
    output = capsys.readouterr()
    return code, output.out, output.err


def less_time(document: dict[str, Any]) -> dict[str, Any]:
    """A result without what is another one in every run."""
    for part in (*document["nodes"], document["summary"]):
        part |= dict.fromkeys({"seconds", "snapshot_id"} & set(part), 0)
    document.pop("run_id", None)
    return document


def test_the_documents_are_those_of_the_command_line(
    tmp_path: Path, project: sqb.Project, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = write(tmp_path / "twin", FILES)
    plan = project.plan()
    assert plan.to_dict() == json.loads(printed(capsys, twin, "plan", "--json")[1])
    assert str(plan) + "\n" == printed(capsys, twin, "plan")[1]
    result = project.build(plan)
    code, out, _ = printed(capsys, twin, "build", "--json")
    assert less_time(result.to_dict()) == less_time(json.loads(out))
    assert result.ok and code == 0
    # With nothing to do.
    assert project.plan().to_dict() == json.loads(printed(capsys, twin, "plan", "--json")[1])
    again = project.build()
    assert less_time(again.to_dict()) == less_time(json.loads(printed(capsys, twin, "build", "--json")[1]))
    assert "Nothing to do: everything is up to date." in str(again).splitlines()
    assert str(again).splitlines()[:-1] == printed(capsys, twin, "build")[1].splitlines()[:-1]
    assert project.history(result.run_id) == json.loads(
        printed(capsys, project.root, "history", result.run_id, "--json")[1]
    )
    assert project.freshness() == json.loads(printed(capsys, project.root, "freshness", "--json")[1])


def test_a_plan_and_a_result_are_walked_through(project: sqb.Project, capsys: pytest.CaptureFixture[str]) -> None:
    plan = project.plan(select=["people", "leave"])
    assert [n.name for n in plan] == [n.name for n in plan.to_run] == ["seeds.people", "leave"]
    assert plan["people"].reason == "First run" and plan["seeds.people"].action == "run"
    assert plan.summary["run"] == len(plan) == 2 and not plan.nothing_to_do and plan.blocked == ()
    assert repr(plan) == "<sqb.Plan of dev: 2 run, 0 skip, 0 blocked>"
    with pytest.raises(KeyError, match="places"):
        plan["places"]
    result = project.build(plan)
    assert {n.name: n.status for n in result}["seeds.people"] == "ok"
    assert (result["people"].rows, result["people"].error, result["people"].kind) == (2, None, "seed")
    assert result.raise_for_failures() is result and not result.failed and not result.interrupted
    assert str(result).splitlines()[-1].startswith("Done: 2 ran, 0 skipped, 0 failed (2 rows,")
    assert result.summary["spark_started"] is False and result.environment is None
    # Nothing of it was printed.
    assert capsys.readouterr() == ("", "")


def test_the_nodes_of_the_project_are_known_without_a_lake(project: sqb.Project) -> None:
    nodes = {n.name: n for n in project.nodes}
    assert nodes["seeds.people"] == sqb.Node(
        "seeds.people", "seed", "seed", "seeds.people", "seeds/people.csv", (), (), ""
    )
    assert (nodes["leave"].upstream, nodes["greet"].description) == (("greet",), "Says hello.")
    assert (project.name, project.target) == ("shop", "dev")
    assert not (project.root / "lake").exists()


def test_targets_and_variables_are_those_of_the_project(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "sqlbuild_project.toml": TARGETS})
    prod = sqb.Project(str(tmp_path), target="prod")
    assert prod.plan().target == prod.target == "prod"
    assert str(sqb.plan(prod, select="people")["people"].relation) == "prod.people"
    assert str(sqb.plan(prod, target="dev", select="people")["people"].relation) == "dev.people"
    with pytest.raises(errors.UnknownTarget):
        sqb.Project(tmp_path, target="pord").plan()
    with pytest.raises(errors.CallError, match="day must be text"):
        sqb.Project(tmp_path, vars={"day": {"of": "week"}})
    dev = sqb.Project(tmp_path)
    with pytest.raises(errors.CallError, match="the plan is of another target: prod"):
        dev.build(prod.plan())
    with pytest.raises(errors.CallError, match="the plan is of other variables"):
        dev.build(sqb.plan(dev, vars={"day": "2024-01-31"}))


def test_what_is_no_option_is_told(project: sqb.Project) -> None:
    with pytest.raises(TypeError, match=r"plan\(\) has no option .slect.: did you mean .select."):
        project.plan(slect="people")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="fail_fast"):
        sqb.plan(project, fail_fast=True)  # type: ignore[call-arg]
    with pytest.raises(errors.CallError, match="concurrency must be from 1 to 256"):
        project.build(concurrency=0)
    with pytest.raises(errors.CallError, match="a plan has its own options"):
        project.build(project.plan(), select="people")
    with pytest.raises(errors.BadSelector):
        project.plan(select="peopel")


def test_all_errors_of_a_project_are_in_what_is_raised(
    project: sqb.Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project.root, {"models/a.sql": "SELECT 1 +", "models/b.sql": "SELECT (1"})
    with pytest.raises(errors.SqbErrors) as raised:
        project.plan()
    assert {e.at.file for e in raised.value.errors if e.at} == {"models/a.sql", "models/b.sql"}
    monkeypatch.chdir(project.root)
    code, _, err = printed(capsys, project.root, "plan")
    assert (code, sqb.error_text(raised.value) + "\n") == (2, err)
    with pytest.raises(errors.NoProject):
        sqb.Project(project.root.parent)


def test_failures_are_part_of_the_result(project: sqb.Project) -> None:
    write(project.root, {"broken": ""})
    result = project.build()
    assert not result.ok
    assert [n.name for n in result.failed] == ["greet"] and [n.name for n in result.blocked] == ["leave"]
    with pytest.raises(BuildFailed) as raised:
        result.raise_for_failures()
    assert raised.value.message == "the build did not end well: 1 failed, 1 blocked"
    assert raised.value.errors == result.errors and len(result.errors) == 1
    text = sqb.error_text(raised.value, project.root)
    assert "leave: upstream greet failed" in text and "python/tasks.py" in text and "not today" in text
    # The next build does the rest.
    (project.root / "broken").unlink()
    assert [n.name for n in project.build().ran] == ["greet", "leave"]


class TestPlansThatAreOutOfDate:
    def test_what_was_not_planned_is_not_built(self, project: sqb.Project) -> None:
        plan = project.plan()
        write(project.root, {"seeds/people.csv": "id,name\n3,Mary\n", "seeds/more.csv": "id\n1\n"})
        with pytest.raises(PlanOutOfDate) as raised:
            project.build(plan)
        assert raised.value.evidence == (
            "seeds.more would run now, and was not there (First run)",
            "seeds.people has another definition now",
        )
        assert not (project.root / "lake").exists()
        assert project.build(project.plan()).ok

    def test_what_somebody_else_has_built_is_not_built_again(self, project: sqb.Project) -> None:
        plan = project.plan()
        project.build(select="people")
        assert [n.name for n in project.build(plan).ran] == ["seeds.places", "greet", "leave"]
        assert project.build(plan).ran == ()

    def test_what_was_to_be_skipped_and_would_run_is_refused(self, project: sqb.Project) -> None:
        project.build()
        plan = project.plan()
        write(project.root, {"seeds/places.csv": "id,place\n1,Paris\n"})
        with pytest.raises(PlanOutOfDate) as raised:
            sqb.build(project, plan)
        (line,) = raised.value.evidence
        assert line.startswith("seeds.places would run now, and was planned to be skipped (")

    def test_a_forced_plan_is_forced_each_time(self, project: sqb.Project) -> None:
        project.build()
        plan = project.plan(select="places", force=True)
        assert [n.name for n in project.build(plan).ran] == ["seeds.places"]
        assert [n.name for n in project.build(plan).ran] == ["seeds.places"]


class TestListening:
    def test_events_come_one_at_a_time(self, project: sqb.Project) -> None:
        heard: list[events.Event] = []
        result = sqb.build(project, listen=heard.append)
        done = [e for e in heard if isinstance(e, events.NodeDone)]
        assert {d.name for d in done} == {n.name for n in result}
        assert [e.text for e in heard if isinstance(e, events.NodeSaid)] == ["greet: hello"]

    def test_the_listener_of_the_command_line(self, project: sqb.Project, capsys: pytest.CaptureFixture[str]) -> None:
        sqb.Project(project.root, listen=sqb.show).build(select="people")
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("[OK] seeds.people (seed, backfill, 2 rows,")

    def test_what_a_listener_raises_stops_the_build_and_comes_out(self, project: sqb.Project) -> None:
        def refuse(event: events.Event) -> None:
            if isinstance(event, events.NodeDone) and event.name == "seeds.people":
                raise RuntimeError("enough")

        stop = threading.Event()
        with pytest.raises(RuntimeError, match="enough"):
            project.build(listen=refuse, concurrency=1, stop=stop)
        assert not stop.is_set()
        assert "leave" in {n.name for n in project.plan().to_run}

    def test_the_callers_event_is_waited_for(self) -> None:
        asked = threading.Event()
        assert not StopEvent(asked).wait(0.01) and not StopEvent(None).wait(0.01)
        threading.Timer(0.1, asked.set).start()
        assert StopEvent(asked).wait(10) and StopEvent(asked).wait()

    def test_an_event_stops_the_build(self, project: sqb.Project) -> None:
        stop = threading.Event()
        stop.set()
        result = project.build(stop=stop)
        assert result.interrupted and not result.ok and not result.ran
        assert str(result).splitlines()[-2].startswith("Interrupted: what had been published stays")
        with pytest.raises(BuildFailed, match="it was interrupted"):
            result.raise_for_failures()


def test_a_build_in_another_thread_touches_no_signals(project: sqb.Project) -> None:
    results: list[sqb.Result] = []
    threads = [
        threading.Thread(target=lambda name=name: results.append(project.build(select=name)))
        for name in ("people", "places")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.nodes[0].name for r in results if r.ok) == ["seeds.people", "seeds.places"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def press_ctrl_c(event: events.Event) -> None:
    """Ctrl-C while a node runs that takes a minute."""
    if isinstance(event, events.NodeStarted) and event.name == "leave":
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()


def raise_it(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def of_pyspark() -> Any:
    """A handler such as PySpark sets when a session is made in the main thread."""

    def signal_handler(signal: Any, frame: Any) -> None:
        raise KeyboardInterrupt

    signal_handler.__module__ = "pyspark.core.context"
    return signal_handler


@pytest.mark.parametrize("handler", [signal.default_int_handler, of_pyspark()], ids=["Python", "PySpark"])
def test_ctrl_c_ends_the_build_cleanly_and_is_raised(project: sqb.Project, handler: Any) -> None:
    write(project.root, {"slow": ""})
    before = signal.signal(signal.SIGINT, handler)
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            project.build(listen=press_ctrl_c)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30
    assert [n.name for n in project.plan().to_run] == ["leave"]


def test_a_handler_of_the_caller_that_raises_leaves_nobody_at_work(project: sqb.Project) -> None:
    write(project.root, {"slow": ""})
    before = signal.signal(signal.SIGINT, raise_it)
    try:
        with pytest.raises(KeyboardInterrupt):
            project.build(listen=press_ctrl_c)
    finally:
        signal.signal(signal.SIGINT, before)
    # Nobody publishes anything any more, and what was done is known.
    assert not [t.name for t in threading.enumerate() if t.name.startswith("worker-")]
    assert [n.name for n in project.plan().to_run] == ["leave"]


def test_handlers_of_the_caller_stay(project: sqb.Project) -> None:
    seen: list[object] = []

    def own(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, own)
    try:
        project.build(listen=lambda event: seen.append(signal.getsignal(signal.SIGINT)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(seen) == {own}


def test_environments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = {name: text for name, text in FILES.items() if name.startswith("seeds")}
    root = write(tmp_path, {**seeds, "sqlbuild_project.toml": 'name = "shop"\n[virtual]\nenabled = true\n'})
    project = sqb.Project(root)
    plan = project.plan(virtual_env="pr")
    assert plan.to_dict() == json.loads(printed(capsys, root, "plan", "--virtual-env", "pr", "--json")[1])
    assert plan.environment is not None and plan.environment["exists"] is False
    (root / "seeds" / "people.csv").write_text("id,name\n3,Mary\n")
    with pytest.raises(PlanOutOfDate):
        project.build(plan)
    # What is refused makes no environment.
    again = project.plan(virtual_env="pr")
    assert again.environment is not None and again.environment["exists"] is False
    result = project.build(again)
    assert result.ok and result.environment is not None
    assert (result.environment["name"], result.environment["shown"]) == ("pr", True)
    with pytest.raises(errors.SqbError):
        sqb.plan(write(tmp_path / "direct", seeds), virtual_env="pr")


def test_what_people_call_has_the_names_of_packages(project: sqb.Project) -> None:
    from sqb.build.scheduler import Build  # of the package whose name is also a function

    assert Build.__module__ == "sqb.build.scheduler"
    for name in sqb.__all__:
        assert getattr(sqb, name) is not None and name in dir(sqb)
    with pytest.raises(AttributeError):
        sqb.nothing  # type: ignore[attr-defined] # noqa: B018
    result = sqb.build(project.root, select="people")
    assert isinstance(result, sqb.Result) and isinstance(sqb.plan(project.root), sqb.Plan)
