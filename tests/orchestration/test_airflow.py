"""The example of docs/orchestration.md in the real Airflow, in an environment that scripts/airflow_env.py makes.

Nothing here starts Spark.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.required import missing

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"
FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "python/tasks.py": """
from sqb import task


@task(depends_on="seed:people", description="Says hello.")
def greet(ctx):
    ctx.log.info("hello")
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if not PYTHON.is_file():
        missing(".venv-airflow is not there: scripts/airflow_env.py makes it, and needs a network for that")
    for name, text in FILES.items():
        path = tmp_path / "a shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "a shop"


def test_a_project_in_airflow(project: Path) -> None:
    output, tools = project.parent / "output.json", Path(sys.executable).parent
    environment = {
        "AIRFLOW_HOME": str(project.parent / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "orchestration" / "airflow"),
        "SQB_PROJECT": str(project),
        # The environment of Airflow shares sqb with this one, but not its command.
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [PYTHON, Path(__file__).with_name("drive_airflow.py"), output],
        env={**os.environ, **environment},
        cwd=project.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(output.read_text())

    graph = result["graph"]
    assert {name: task["upstream"] for name, task in graph.items()} == {"seeds.people": [], "greet": ["seeds.people"]}
    call = ["build", "--select", "greet", "--project-dir", str(project), "--target", "dev"]
    assert shlex.split(graph["greet"]["command"])[1:] == call
    assert (graph["greet"]["doc"], graph["greet"]["retries"]) == ("Says hello.", 1)

    assert (result["state"], result["tasks"]) == ("success", {"seeds.people": "success", "greet": "success"})
    listed = subprocess.run(
        [tools / "sqb", "history", "--json"], cwd=project, capture_output=True, text=True, check=True
    )
    runs = json.loads(listed.stdout)["runs"]
    assert [[node["name"] for node in run["nodes"]] for run in runs] == [["greet"], ["seeds.people"]]
