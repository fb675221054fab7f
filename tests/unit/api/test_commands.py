"""Every command is a method of the API that returns what the command prints with --json; nothing here starts Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sqb
from sqb import errors
from sqb.cli import main
from sqb.engine import start
from support.fake_engine import COMMAND
from unit.folders import write

VIRTUAL = 'name = "shop"\n[virtual]\nenabled = true\n'
FILES = {
    "sqlbuild_project.toml": VIRTUAL,
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
}
LOADER = """
from sqb import loader


@loader(source="raw.events")
def events(ctx):
    return [{"id": 1}]
"""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> sqb.Project:
    """A project of seeds in two environments; in `pr` one of them has one more row."""
    root = write(tmp_path_factory.mktemp("api") / "shop", FILES)
    project = sqb.Project(root)
    project.build().raise_for_failures()
    write(root, {**FILES, "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n3,Edith\n"})
    project.build(virtual_env="pr").raise_for_failures()
    return project


@pytest.fixture
def models(tmp_path: Path) -> sqb.Project:
    """A project with models, none of them built."""
    files = {
        "seeds/people.csv": "id,name\n1,Ada\n",
        "models/staging/names.sql": "SELECT id, upper(name) AS name FROM people",
        "tests/names.yml": "tests: [{name: upper, model: names, given: {people: []}, expect: []}]",
    }
    return sqb.Project(write(tmp_path / "shop", files))


@pytest.fixture
def document(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """What a command prints with --json."""

    def call(project: sqb.Project, *arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        main.run([*arguments, "--json", "--project-dir", str(project.root)])
        printed = json.loads(capsys.readouterr().out)
        assert isinstance(printed, dict)
        return printed

    return call


Document = Callable[..., dict[str, Any]]


def less_time(matches: dict[str, Any]) -> dict[str, Any]:
    matches["summary"].pop("seconds")
    return matches


def test_commands_that_only_look(models: sqb.Project, document: Document) -> None:
    assert models.compile(select="names") == document(models, "compile", "-s", "names")
    assert models.lineage("names.name") == document(models, "lineage", "names.name")
    assert models.explain("names") == document(models, "plan", "names", "--explain")
    assert less_time(models.test(exclude="names")) == less_time(document(models, "test", "--exclude", "names"))


def test_environments_are_compared(environments: sqb.Project, document: Document) -> None:
    differences = environments.diff(source="pr", to="dev")
    assert [node["name"] for node in differences["nodes"]] == ["seeds.people"]
    assert differences == document(environments, "diff", "--from", "pr", "--to", "dev")
    build = environments.diff(source="pr", to="dev", cost=True)["build"]
    assert (build["ran"], build["skipped"], build["failed"], build["rows"], build["runs"]) == (1, 1, 0, 3, 1)
    with pytest.raises(errors.CallError, match="a diff is of one node"):
        environments.diff()
    with pytest.raises(TypeError, match=r"diff\(\) has no option 'agianst': did you mean 'against'\?"):
        environments.diff("people", agianst="prod")  # type: ignore[call-arg]


def test_environments_are_compared_for_a_comment(environments: sqb.Project, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["diff", "--from", "pr", "--to", "dev", "--markdown", "--project-dir", str(environments.root)]
    assert main.run([*call, "--no-rows", "--exit-code"]) == 1
    head, table, cost = capsys.readouterr().out.split("\n\n")[1:]
    assert head == "**1 node differs** (1 changed), 1 the same."
    assert table.splitlines()[2:] == ["| `seeds.people` | Query changed | 2 → 3 |  |  |  |  |"]
    assert cost.startswith("Last build `") and cost.endswith("; 2 nodes: 1 ran, 1 skipped; 3 rows in what ran.\n")
    assert main.run([*call, "--json"]) == 2
    assert "--markdown and --json are two forms of the result" in capsys.readouterr().out


def test_environments_are_promoted_and_rolled_back(environments: sqb.Project, document: Document) -> None:
    would = document(environments, "promote", "--from", "pr", "--to", "dev", "--dry-run")
    assert less_time(environments.promote("pr", "dev", dry_run=True)) == less_time(would)
    promoted = environments.promote("pr", "dev", select=["people"])
    assert (promoted["from"], promoted["to"], promoted["summary"]["views"]) == ("pr", "dev", 1)
    would = document(environments, "rollback", "--virtual-env", "dev", "--dry-run")
    assert less_time(environments.rollback("dev", dry_run=True)) == less_time(would)
    assert environments.rollback("dev")["summary"]["views"] == 1
    with pytest.raises(errors.CallError, match="cannot be promoted to itself"):
        environments.promote("pr", "pr")


def test_the_state(environments: sqb.Project, document: Document) -> None:
    state = environments.state
    assert state.init()["made"] is False
    assert state.migrate() == document(environments, "state", "migrate")
    assert state.pair() == document(environments, "state", "pair")
    assert state.show() == document(environments, "state", "show")
    assert state.show("pr") == document(environments, "state", "show", "--virtual-env", "pr")
    assert state.adopt(dry_run=True) == document(environments, "state", "adopt", "--dry-run")
    checkpoints = state.checkpoints(virtual_env="dev")
    assert checkpoints == document(environments, "state", "checkpoints", "--virtual-env", "dev")
    ids = [c["id"] for c in checkpoints["checkpoints"]]
    assert state.checkpoints(ids[0]) == document(environments, "state", "checkpoints", "show", ids[0])
    assert (
        state.checkpoints(ids[0], ids[-1])["nodes"]
        == (document(environments, "state", "checkpoints", "diff", ids[0], ids[-1])["nodes"])
    )
    with pytest.raises(errors.CallError, match="at most two"):
        state.checkpoints("1", "2", "3")


def test_an_environment_is_detached_and_removed(environments: sqb.Project) -> None:
    environments.build(virtual_env="old")
    state = environments.state
    assert state.detach("old")["status"] == "detached"
    with pytest.raises(errors.SqbError, match="old is detached"):
        environments.build(virtual_env="old")
    assert state.reattach("old")["status"] == "finalized"
    assert state.remove("old") == {"target": "dev", "environment": "old", "views": 2}
    with pytest.raises(errors.SqbError, match='there is no virtual environment "old"'):
        state.show("old")


def test_the_janitor(environments: sqb.Project, document: Document) -> None:
    assert environments.janitor(dry_run=True) == document(environments, "janitor", "--dry-run")
    assert environments.janitor()["dry_run"] is False


def test_loaders_alone(tmp_path: Path, models: sqb.Project) -> None:
    with pytest.raises(errors.CallError, match="the project has no loaders"):
        models.load()
    project = sqb.Project(write(tmp_path / "loading", {"python/loaders.py": LOADER}))
    with pytest.raises(errors.CallError, match='no loader is called "event"'):
        project.load("event")
    result = project.load("raw.events", concurrency=1)
    assert [(n.name, n.status, n.rows) for n in result] == [("events", "ok", 1)]


def test_the_engine(tmp_path: Path, document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start.start_engine, "__defaults__", (COMMAND,))
    heard: list[object] = []
    project = sqb.Project(write(tmp_path, {}), listen=heard.append)
    assert project.engine.status() == document(project, "engine", "status") == {"status": "stopped", "why": None}
    try:
        started = project.engine.start(idle_timeout="2m")
        assert (started["status"], started["started"], started["idle_timeout"]) == ("running", True, 120)
        assert project.engine.start()["started"] is False
    finally:
        assert project.engine.stop(now=True) == {"status": "stopped", "stopped": True}
    with pytest.raises(errors.CallError, match="is not a duration"):
        project.engine.start(idle_timeout="soon")
