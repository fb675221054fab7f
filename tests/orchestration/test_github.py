"""The workflows of docs/orchestration.md: linted, and their steps run as a runner runs them, on a project of seeds.

GitHub is a `gh` that stores comments in a file. Nothing here starts Spark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.required import missing

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / "examples" / "github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SCRIPTS = sorted(GITHUB.glob("*.sh"))
ALLOWED = {"actions/checkout", "actions/setup-python", "actions/setup-java", "actions/cache"}
MARK = "<!-- sqb: what this pull request changes -->\n"

# Does what `gh api` does with comments: as they are in comments.json, a list.
GH = """#!{python}
import json, sys
from pathlib import Path

words = sys.argv[1:]
assert words[0] == "api", words
file = Path({file!r})
comments = json.loads(file.read_text())
method = words[words.index("--method") + 1] if "--method" in words else "GET"
place = next(w for w in words if w.startswith("repos/shop/shop/issues/"))
body = next((Path(w.removeprefix("body=@")).read_text() for w in words if w.startswith("body=@")), None)
if method == "GET":
    assert "--paginate" in words and place == "repos/shop/shop/issues/7/comments"
    mark = words[words.index("--jq") + 1].split('startswith("')[1].split('"')[0]
    print(*[c["id"] for c in comments if c["type"] == "Bot" and c["body"].startswith(mark)], sep="\\n")
elif method == "PATCH":
    [comment] = [c for c in comments if place == f"repos/shop/shop/issues/comments/{{c['id']}}"]
    comment["body"] = body
else:
    assert place == "repos/shop/shop/issues/7/comments"
    comments.append({{"id": 100 + len(comments), "type": "Bot", "body": body}})
file.write_text(json.dumps(comments))
"""


def find_tool(name: str) -> str:
    tool = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if tool is None:
        missing(f"{name} is not installed: make venv does that")
    return tool


def read_workflow(file: Path) -> dict[str, Any]:
    document = yaml.safe_load(file.read_text())
    assert isinstance(document, dict)
    return document


def list_steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in read_workflow(file)["jobs"].values() for step in job["steps"]]


def check_shell(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    subprocess.run([find_tool("shellcheck"), "--shell=bash", "-"], input=text, text=True, check=True)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_are_what_github_takes(file: Path) -> None:
    check = [find_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", file]
    subprocess.run(check, check=True, capture_output=True)
    document = read_workflow(file)
    assert document["permissions"]["contents"] == "read", "what a token may do is said"
    assert document["defaults"] == {"run": {"shell": "bash"}}
    assert document["concurrency"]["group"].startswith("sqb-")
    for job in document["jobs"].values():
        assert "head.repo.full_name == github.repository" in job["if"], "forks have no secrets"
        assert job["timeout-minutes"] > 0
    for step in list_steps(file):
        assert step.get("uses", "actions/checkout@v5").rpartition("@")[0] in ALLOWED
        # What others wrote (a title, a branch) never becomes part of a script.
        assert "${{" not in step.get("run", "")
    expressions = re.findall(r"\$\{\{ *([^}]*?) *\}\}", file.read_text())
    assert not any(part in e for e in expressions for part in (".title", ".body", "head.ref", "head_ref"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_steps_are_shell(file: Path) -> None:
    for step in list_steps(file):
        if "run" in step:
            check_shell(step["run"])


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_scripts_are_shell(file: Path) -> None:
    assert os.access(file, os.X_OK)
    check_shell(file.read_text())


class Runner:
    """A checkout, and what a runner of GitHub has around it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.comments = folder / "shop", folder / "comments.json"
        self.summary = folder / "summary.md"
        self.write(
            "sqlbuild_project.toml", 'name = "shop"\n[targets.prod]\nschema = "shop"\n[virtual]\nenabled = true\n'
        )
        self.write("seeds/people.csv", "id,name\n1,Ada\n")
        for script in SCRIPTS:
            self.write(f".github/{script.name}", script.read_text())
        self.comments.write_text(json.dumps([{"id": 1, "type": "User", "body": f"{MARK}a quotation"}]))
        tools = folder / "bin"
        tools.mkdir()
        (tools / "gh").write_text(GH.format(python=sys.executable, file=str(self.comments)))
        (tools / "gh").chmod(0o755)
        (tools / "sqb").write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name("sqb")} "$@"\n')
        (tools / "sqb").chmod(0o755)
        self.environment = {
            **{name: os.environ[name] for name in ("HOME", "PYTHONPATH") if name in os.environ},
            "PATH": f"{tools}:/usr/bin:/bin",
            "GITHUB_REPOSITORY": "shop/shop",
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, workflow: str, number: int = 7) -> str:
        """Run the steps of a workflow as GitHub does: those after a failure only where their condition allows it."""
        file = GITHUB / "workflows" / workflow
        shared, failed, printed = self._resolve(read_workflow(file)["env"], number), False, ""
        for step in list_steps(file):
            condition = step.get("if", "success()")
            if (
                "run" not in step
                or step["name"] == "Install"
                or ("failure()" if failed else "success()") not in condition
            ):
                continue
            done = subprocess.run(
                # What `shell: bash` means.
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder,
                env={**self.environment, **shared, **self._resolve(step.get("env", {}), number)},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            failed |= done.returncode != 0
            printed += f"{step['name']}: {done.returncode}\n{done.stdout}{done.stderr}"
        return printed

    def _resolve(self, values: dict[str, str], number: int) -> dict[str, str]:
        known = {"github.event.number": str(number), "github.run_id": "55", "github.repository": "shop/shop"}
        known["github.server_url"] = "https://github.example"
        return {
            name: re.sub(r"\$\{\{ *([^}]*?) *\}\}", lambda match: known.get(match[1], "secret"), value)
            for name, value in values.items()
        }

    def read_comments(self) -> list[str]:
        return [c["body"] for c in json.loads(self.comments.read_text())]

    def call(self, *words: str) -> str:
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout


def test_the_life_of_a_pull_request(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.call("sqb", "build", "--target", "prod")

    # Opened: one new table, which has no rows to compare.
    runner.write("seeds/places.csv", "id,place\n1,London\n2,Paris\n")
    printed = runner.run("sqb_pull_request.yml")
    assert "\nComment: 0\n" in printed, printed
    quotation, comment = runner.read_comments()
    assert comment.startswith(f"{MARK}### `pr_7` compared with `prod`\n\n**1 node differs** (1 new), 1 the same.\n")
    assert "| `seeds.places` | new: only in `pr_7` | 2 |  |  |  |  |" in comment
    assert "\nLast build `" in comment and "2 nodes: 1 ran, 1 skipped; 2 rows in what ran." in comment
    assert "seeds.places" in runner.summary.read_text()

    # Pushed to, with a mistake: the comment is replaced.
    runner.write("seeds/places.csv", "id,place\n1\n")
    assert runner.run("sqb_pull_request.yml").startswith("Plan: 2\n")
    log = "https://github.example/shop/shop/actions/runs/55"
    assert runner.read_comments() == [quotation, f"{MARK}sqb could not build `pr_7`: [the log]({log}).\n"]

    # Repaired and merged: production shows what was built before, and the environment goes.
    runner.write("seeds/places.csv", "id,place\n1,London\n2,Paris\n")
    printed = runner.run("sqb_promote.yml")
    assert "Promoted 1 node from pr_7 to prod" in printed, printed
    assert "Done: 0 ran, 2 skipped" in printed or "Nothing to do" in printed, printed
    assert "Remove the environment: 0" in printed, printed
    shown = json.loads(runner.call("sqb", "state", "show", "--json", "--target", "prod"))
    assert [(e["name"], e["nodes"]) for e in shown["environments"]] == [("prod", 2)]

    # One that never had an environment is closed.
    assert "Remove the environment: 0\nThere is no virtual environment pr_8." in runner.run("sqb_clean.yml", number=8)
