"""The script of docs/orchestration.md, run as cron runs it. Nothing here starts Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.required import missing

SCRIPT = Path(__file__).parents[2] / "examples" / "orchestration" / "cron" / "sqb_build.sh"
TASKS = """
from pathlib import Path

from sqb import task


@task(depends_on="seed:people")
def greet(ctx):
    assert not Path("broken").exists(), "not today"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if shutil.which("flock") is None:
        missing("there is no flock on this machine: install util-linux")
    files = {
        "sqlbuild_project.toml": 'name = "shop"\n',
        "seeds/people.csv": "id,name\n1,Ada\n",
        "python/tasks.py": TASKS,
    }
    for name, text in files.items():
        path = tmp_path / "a shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "a shop"


def build(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """One run, with as little in the environment as cron gives."""
    remaining = {name: os.environ[name] for name in ("HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [SCRIPT, project, *options],
        env={**remaining, "PATH": "/usr/bin:/bin", "SQB": str(Path(sys.executable).with_name("sqb"))},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def logs(project: Path) -> list[Path]:
    return sorted((project / ".sqb" / "cron").glob("*.log"))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """A build that runs at the same time."""
    holder = subprocess.Popen(["flock", file, "sh", "-c", "echo; read _"], stdin=-1, stdout=-1, text=True)
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate("\n", timeout=20)


def test_the_script(project: Path) -> None:
    # It goes well: nothing is said, and the log has it all.
    done = build(project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (log,) = logs(project)
    assert "Done: 2 ran, 0 skipped, 0 failed" in log.read_text()

    # Something fails: the words are for the mail.
    (project / "broken").touch()
    with open(project / "seeds" / "people.csv", "a") as file:
        file.write("2,Grace\n")
    done = build(project, "--concurrency", "1")
    assert (done.returncode, done.stdout) == (1, "")
    last = logs(project)[-1]
    assert done.stderr.startswith(f"sqb build of {project} ended with exit code 1; all of it is in {last}\n")
    assert "[FAIL] greet" in done.stderr and "not today" in done.stderr

    # The call is wrong.
    done = build(project, "--target", "prod")
    assert done.returncode == 2 and "SQB-C004" in done.stderr

    # The build before still runs: this one leaves it alone.
    count = len(logs(project))
    with locked(project / ".sqb" / "cron" / "lock"):
        done = build(project)
    assert (done.returncode, done.stderr) == (75, f"sqb: the build before this one still runs: {project}\n")
    assert len(logs(project)) == count

    # It ended, and the next one does the rest; old logs go.
    for number in range(40):
        (project / ".sqb" / "cron" / f"20000101T0000{number:02}Z.log").touch()
    (project / "broken").unlink()
    assert build(project).returncode == 0
    assert "Done: 1 ran, 1 skipped, 0 failed" in logs(project)[-1].read_text()
    assert len(logs(project)) == 30
