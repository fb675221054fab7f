"""The example of docs/orchestration.md in the real Dagster, in an environment that scripts/dagster_env.py makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.required import missing

ROOT = Path(__file__).parents[2]
DAGSTER = ROOT / ".venv-dagster" / "bin" / "dagster"
EXAMPLE = ROOT / "examples" / "orchestration" / "dagster" / "definitions.py"
FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
    "models/staging/names.sql": """
-- @owner: the data team
-- @tag: daily
-- @constraint: not_null(name)
-- @warning: accepted_values(name, 'PARIS')
SELECT upper(place) AS name FROM places
""",
    "python/tasks.py": """
from pathlib import Path

from sqb import task


@task(depends_on="seed:people", description="Says hello.")
def greet(ctx):
    assert not Path("broken").exists(), "not today"
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if not DAGSTER.is_file():
        missing(".venv-dagster is not there: scripts/dagster_env.py makes it, and needs a network for that")
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "home").mkdir()
    return tmp_path / "shop"


def run(project: Path, *command: Path | str) -> str:
    home = {"DAGSTER_HOME": str(project.parent / "home"), "DAGSTER_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **home, "SQB_PROJECT": str(project)},
        cwd=project.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_project_in_dagster(project: Path) -> None:
    # As people run a job; the model runs on a Spark that the build starts.
    run(project, DAGSTER, "job", "execute", "-f", EXAMPLE, "-j", "sqb_build")
    driver = Path(__file__).with_name("drive_dagster.py")
    reported = run(project, DAGSTER.with_name("python"), driver, project)
    graph, checks, unchanged, failed, greeted, refused = (json.loads(line) for line in reported.splitlines())
    people, places = ["seeds/people"], ["seeds/places"]
    upstream = {key: asset["deps"] for key, asset in graph.items()}
    assert upstream == {"seeds/people": [], "seeds/places": [], "greet": people, "staging/names": places}
    assert graph["staging/names"] == {
        "deps": places,
        "kinds": ["sqb", "table"],
        "owners": ["team:the_data_team"],
        "group": "staging",
        "tags": ["daily"],
        "relation": "staging.names",
    }

    # The checks of the model ran with it: what blocks passed, what warns did not.
    warned = checks.pop("staging/names:accepted_values_name_PARIS")
    assert checks == {"staging/names:not_null_name": {"passed": True, "severity": "ERROR", "metadata": {}}}
    assert (warned["passed"], warned["severity"], warned["metadata"]["violations"]) == (False, "WARN", 1)

    # Everything was built by the job before.
    assert unchanged == {"ok": True, "made": {}, "failures": []}

    made: dict[str, Any] = failed["made"]
    assert not failed["ok"] and set(made) == {"seeds/people"}
    assert (made["seeds/people"]["dagster/row_count"], made["seeds/people"]["run_type"]) == (3, "backfill")
    (failure,) = failed["failures"]
    assert failure["message"] == "the build did not end well: 1 failed"
    assert "AssertionError: not today" in failure["errors"] and "python/tasks.py:" in failure["errors"]

    assert greeted["ok"] and set(greeted["made"]) == {"greet"}

    (failure,) = refused["failures"]
    assert not refused["made"] and "models/wrong.sql:1:9" in failure["errors"]
