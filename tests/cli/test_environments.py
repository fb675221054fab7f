"""Virtual environments from the command line; seeds need no Spark, and neither do plans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import SQB, Folder

PROJECT = """name = "shop"
default_target = "dev"
[targets.dev]
schema = "dev"
[virtual]
enabled = true
"""
FILES = {
    "sqlbuild_project.toml": PROJECT,
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
}
HOLD = """
import sys, time
from pathlib import Path
from sqb.environments.session import open_workspace_store
from sqb.workspace import open_workspace

with open_workspace_store(open_workspace(Path(sys.argv[1]), None, None)).lock(sys.argv[2], "ada@desk, a long build"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    result = Folder(tmp_path)
    result.write(FILES)
    done = result.here("build")
    assert done.code == 0, done.err
    assert "Virtual environment dev: finalized, 2 views moved" in done.lines
    return result


def tables(folder: Folder, environment: str) -> dict[str, str]:
    """The physical tables of an environment, by node."""
    shown = folder.here("plan", "--virtual-env", environment, "--json").document
    return {n["name"]: n["relation"] for n in shown["nodes"]}


def lake_of(folder: Folder) -> dict[str, Any]:
    """All that stands in the lake, less the state, whose file differs with every question."""
    return {name: content for name, content in folder.lake().items() if "state" not in name}


def start(folder: Folder, environment: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(SQB), "build", "--virtual-env", environment],
        cwd=folder.root,
        env={**os.environ, "NO_COLOR": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def held(folder: Folder, environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that works on an environment."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.root), environment], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        yield holder
    finally:
        holder.kill()
        holder.wait()


def test_plans_and_builds_tell_of_their_environment(folder: Folder) -> None:
    planned = folder.here("plan", "--virtual-env", "pr_123")
    assert planned.lines[0] == "Virtual environment: pr_123 (working, new: begins as dev)"
    done = folder.here("build", "--virtual-env", "pr_123", "--json").document
    assert done["summary"]["ran"] == 0 and done["summary"]["spark_started"] is False
    environment = done["environment"]
    assert (environment["name"], environment["status"], environment["stale_count"]) == ("pr_123", "finalized", 0)
    assert tables(folder, "pr_123") == tables(folder, "dev")
    assert all(t.startswith("dev__sqb_physical.") and "__v_" in t for t in tables(folder, "dev").values())
    folder.write(
        {
            "seeds/people.csv": "id,name\n1,Ada\n",
            "models/names.sql": "SELECT name FROM people",
            "models/count.sql": "SELECT count(*) AS n FROM names",
        }
    )
    # A selected model whose upstreams are stale: the message of the documentation, and nothing is done.
    before = lake_of(folder)
    for command in ("plan", "build"):
        refused = folder.here(command, "--virtual-env", "pr_124", "--select", "count")
        assert refused.code == 2
        message = "selected models have stale required upstreams: seeds.people, default.names"
        assert refused.err.splitlines()[0] == f"error[SQB-V005]: {message}"
    assert lake_of(folder) == before
    assert folder.here("state", "show", "--virtual-env", "pr_124").code == 2
    plan = folder.here(
        "plan", "--virtual-env", "pr_123", "--select", "names", "--include-stale-upstreams", "--json"
    ).document
    assert [n["name"] for n in plan["nodes"]] == ["seeds.people", "default.names"]
    messages: dict[str, Any] = plan["environment"]
    assert messages["status"] == "working" and messages["stale_count"] == 3
    assert {s["name"]: s["reason"] for s in messages["stale_roots"]} == {
        "seeds.people": "Query changed",
        "default.names": "First run",
        "default.count": "First run",
    }
    assert messages["remaining_stale"] == ["default.count"]
    lines = folder.here("plan", "--virtual-env", "pr_123", "--select", "+names", "--changes-only").lines
    assert "Stale models: 3" in lines
    assert "Remaining stale after this selection: 1 (default.count)" in lines
    done = folder.here("build", "--virtual-env", "pr_123", "--select", "people", "--json").document
    assert done["environment"]["status"] == "working"
    assert done["environment"]["remaining_stale"] == ["default.names", "default.count"]
    assert folder.here("build", "--virtual-env", "Pr-1").code == 2


def test_the_second_one_is_told_who_works_on_an_environment(folder: Folder) -> None:
    with held(folder, "dev") as holder:
        before = lake_of(folder)
        refused = folder.here("build")
        assert refused.code == 1
        assert refused.err.startswith("error[SQB-V006]: dev is being worked on by ada@desk, a long build, for ")
        assert "--take-over" in refused.err
        assert lake_of(folder) == before
        # Another environment is another matter, and so is looking.
        assert folder.here("plan").code == 0
        assert folder.here("build", "--virtual-env", "pr").code == 0
        # It ends with its process, whatever ends that.
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert folder.here("build").code == 0
    with held(folder, "dev"):
        assert folder.here("build", "--take-over").code == 0


@pytest.mark.parametrize("step", ["environment begun", "views moved"])
def test_a_build_that_is_killed_is_finished_by_the_next_one(folder: Folder, step: str) -> None:
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n"})
    killed = start(folder, "dev", SQB_FAULT=f"kill:{step}:dev")
    assert killed.wait(60) == -signal.SIGKILL
    done = folder.here("build", "--json").document
    assert done["summary"]["ran"] == 0 and done["environment"]["status"] == "finalized"
    assert done["environment"]["stale"] == []
    assert [c["number"] for c in folder.here("state", "checkpoints", "list", "--json").document["checkpoints"]] == [
        2,
        1,
    ]


def test_two_builds_at_once_that_need_one_table(folder: Folder) -> None:
    for environment in ("one", "two"):
        assert folder.here("build", "--virtual-env", environment).code == 0
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n", "seeds/places.csv": "id,place\n2,Paris\n"})
    builds = [start(folder, environment) for environment in ("one", "two")]
    output = [b.communicate(timeout=120)[0] for b in builds]
    assert [b.returncode for b in builds] == [0, 0], "\n".join(output)
    for environment in ("one", "two"):
        again = folder.here("build", "--virtual-env", environment, "--json").document
        assert again["summary"]["ran"] == 0 and again["environment"]["status"] == "finalized"
    assert len([row for row in folder.lake()["iceberg_tables"] if "people__v_" in row]) == 2
