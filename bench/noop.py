"""What `sqb build` costs when nothing changed, and `sqb plan` after one edit: whole processes, as a user waits.

The project is built once for real on Spark; with --keep the built project stays, and the next run starts from it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from layered import edit, write_project

# As installed: its modules are compiled once, not at every start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Larger first builds take minutes, so they tell how far they are.
QUIET_UP_TO = 500
PROGRESS_EVERY = 50


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process: how long it took and the most memory it held."""

    seconds: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: a command, timed several times on one project."""

    models: int
    command: str
    runs: tuple[Run, ...]
    jvm: str
    nodes_to_run: int

    def cells(self) -> tuple[str, ...]:
        seconds = [run.seconds for run in self.runs]
        return (
            str(self.models),
            self.command,
            f"{statistics.median(seconds):.3f}",
            f"{min(seconds):.3f}",
            f"{max(run.peak_mb for run in self.runs):.0f}",
            self.jvm,
            str(self.nodes_to_run),
        )


HEADINGS = ("models", "command", "median s", "min s", "peak MB", "JVM started", "nodes to run")


def sqb() -> str:
    """The installed command beside this interpreter."""
    command = Path(sys.executable).parent / "sqb"
    if not command.exists():
        sys.exit(f"{command} does not exist: run this with the interpreter of an environment that has sqb installed")
    return str(command)


def timed(command: Sequence[str], folder: Path) -> Run:
    """Run a command to its end without showing its output; a failure ends the benchmark with what it printed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        # wait4 gives this process's own peak; getrusage(RUSAGE_CHILDREN) only knows the peak of all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            text = output.read().decode(errors="replace")
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_maxrss / unit)


def document(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """The JSON document that a command prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under headings, in columns."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (headings, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def markdown(command: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same rows for bench/RESULTS.md, each with the day and the command that made it."""
    head = ("date", "measured with", *headings)
    body = [(date.today().isoformat(), f"`{command}`", *row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def first_build(project: Path, models: int) -> float:
    """Build everything for real; large projects print how many nodes are done."""
    start = time.perf_counter()
    if models <= QUIET_UP_TO:
        timed([sqb(), "build"], project)
        return time.perf_counter() - start
    command = [sqb(), "build"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        finished = 0
        last: list[str] = []
        for line in process.stdout:
            last = [*last[-20:], line]
            finished += line.startswith("[OK]")
            if line.startswith("[OK]") and finished % PROGRESS_EVERY == 0:
                print(f"  {finished} of {models}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if process.returncode != 0:
        sys.exit(f"the first build ended with {process.returncode}:\n{''.join(last)}")
    return time.perf_counter() - start


def started_jvm(command: Sequence[str], project: Path) -> tuple[str, dict[str, Any]]:
    """Whether a command starts Java, and the JSON document it prints.

    A `java` of our own stands first in the way and leaves a mark: unlike a look at the process table it misses nothing.
    """
    with tempfile.TemporaryDirectory() as trap:
        mark = Path(trap) / "started"
        java = Path(trap) / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f'#!/bin/sh\ntouch "{mark}"\nexit 1\n', encoding="utf-8")
        java.chmod(0o755)
        path = f"{java.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {**os.environ, "PATH": path, "JAVA_HOME": trap}
        subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
        trapped = mark.exists()
    # Told again without the trap: a command that needs Java fails in it.
    found = document([*command, "--json"], project)
    said = bool(found["summary"].get("spark_started", False))
    return ("yes" if said or trapped else "no"), found


def unchanged(project: Path, models: int, verb: str, repeats: int) -> Row:
    """Time a command on a project in which nothing changed."""
    command = [sqb(), verb]
    timed(command, project)  # fills the file cache, and the project's own cache after an edit was taken back
    runs = tuple(timed(command, project) for _ in range(repeats))
    jvm, found = started_jvm(command, project)
    summary = found["summary"]
    return Row(models, f"sqb {verb}", runs, jvm, int(summary.get("run", summary.get("ran", 0))))


def plan_after_edit(project: Path, models: int, file: Path, repeats: int) -> Row:
    """Time `sqb plan` with one model changed, a new change each time; the file is put back."""
    command = [sqb(), "plan"]
    original = file.read_text(encoding="utf-8")

    def edited(measure: Callable[[], Run]) -> Run:
        edit(file)
        return measure()

    try:
        runs = tuple(edited(lambda: timed(command, project)) for _ in range(repeats))
        jvm, found = started_jvm(command, project)
    finally:
        file.write_text(original, encoding="utf-8")
    return Row(models, "sqb plan, one edit", runs, jvm, int(found["summary"]["run"]))


def measure(project: Path, models: int, repeats: int, *, may_build: bool) -> list[Row]:
    """All rows for one project size."""
    built = (project / "lake" / "catalog.db").exists()
    if not built and not may_build:
        sys.exit(f"{project} holds no built project")
    files = sorted((project / "models").rglob("*.sql")) if built else write_project(project, models)
    # Also where a built project was kept: an interrupted run may have left it half built.
    what = "built before, checked in" if built else "first build in"
    print(f"{models} models: {what} {first_build(project, models):.1f} s", file=sys.stderr, flush=True)
    return [
        unchanged(project, models, "build", repeats),
        unchanged(project, models, "plan", repeats),
        plan_after_edit(project, models, files[len(files) // 2], repeats),
    ]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[500, 2000], help="project sizes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the built projects here and reuse them")
    parser.add_argument(
        "--first-build",
        choices=("real", "kept"),
        default="real",
        help="kept: only measure projects that --keep holds already",
    )
    arguments = parser.parse_args()
    if arguments.first_build == "kept" and arguments.keep is None:
        parser.error("--first-build kept needs --keep DIR")
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    rows: list[Row] = []
    with place as folder:
        for models in arguments.models:
            project = Path(folder).resolve() / f"models_{models}"
            rows += measure(project, models, arguments.repeats, may_build=arguments.first_build == "real")
    cells = [row.cells() for row in rows]
    print(table(HEADINGS, cells))
    command = f"bench/noop.py --models {' '.join(map(str, arguments.models))} --repeats {arguments.repeats}"
    print(f"\n{markdown(command, HEADINGS, cells)}")


if __name__ == "__main__":
    main()
