"""Planning of large projects, as whole processes: nothing to do, one edit, and a chain of 1,000 models.

The lakes are built without Java (`built_lake.py`): all that a plan reads is there, and 2,000 models take minutes.
Times are those of the processor, user and system, and of the clock: on a machine with other work the first say more.
With --keep the built projects stay, and the next run starts from them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from layered import edit, write_project, write_seeds
from noop import markdown, sqb, table

HEADINGS = ("project", "command", "CPU s median", "min", "clock s median", "min", "peak MB", "target s", "load")


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process."""

    cpu: float
    clock: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Row:
    """A command, timed several times on one project."""

    project: str
    command: str
    runs: tuple[Run, ...]
    target: str

    def cells(self) -> tuple[str, ...]:
        cpu, clock = [run.cpu for run in self.runs], [run.clock for run in self.runs]
        return (
            self.project,
            self.command,
            f"{statistics.median(cpu):.2f}",
            f"{min(cpu):.2f}",
            f"{statistics.median(clock):.2f}",
            f"{min(clock):.2f}",
            f"{max(run.peak_mb for run in self.runs):.0f}",
            self.target,
            f"{os.getloadavg()[0]:.0f}",
        )


def measure(command: Sequence[str], folder: Path) -> Run:
    """Run a command to its end; a failure ends the benchmark with what it printed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{output.read().decode(errors='replace')}")
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Run(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / unit)


def repeat(
    command: Sequence[str], folder: Path, repeats: int, before: Callable[[], None] | None = None
) -> tuple[Run, ...]:
    """The command several times, each after what is to be done before it."""
    runs = []
    for _ in range(repeats):
        if before is not None:
            before()
        runs.append(measure(command, folder))
    return tuple(runs)


def write_chain(folder: Path, models: int) -> list[Path]:
    """A project in which every model reads the one before it."""
    (folder / "models" / "chain").mkdir(parents=True)
    (folder / "sqlbuild_project.toml").write_text(f'name = "chain_{models}"\n', encoding="utf-8")
    write_seeds(folder / "seeds")
    files = []
    for number in range(models):
        above = f"c_{number - 1:04d}" if number else "events"
        file = folder / "models" / "chain" / f"c_{number:04d}.sql"
        file.write_text(f"SELECT id, grp, (amount + 1) % 10007 AS amount, day\nFROM {above}\n", encoding="utf-8")
        files.append(file)
    return files


def prepare(project: Path, write: Callable[[Path, int], list[Path]], models: int) -> list[Path]:
    """The model files of a built project, which is made where it is not there."""
    if not project.exists():
        write(project, models)
    began = time.perf_counter()
    # In a process of its own: the peak memory of a child is never less than that of the process that starts it.
    build = "import sys, pathlib, built_lake; built_lake.build_without_java(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(project)], cwd=Path(__file__).parent, check=True)
    print(f"{project.name}: built in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return sorted((project / "models").rglob("*.sql"))


def measure_project(name: str, project: Path, file: Path, repeats: int, targets: tuple[str, str]) -> list[Row]:
    """Nothing to do, one edit, and everything compiled again."""
    plan = [sqb(), "plan"]
    measure(plan, project)
    rows = [Row(name, "sqb plan", repeat(plan, project, repeats), targets[0])]
    rows.append(Row(name, "sqb build", repeat([sqb(), "build"], project, repeats), targets[0]))
    original = file.read_text(encoding="utf-8")
    try:
        runs = repeat(plan, project, repeats, lambda: edit(file))
        rows.append(Row(name, "sqb plan, one edit", runs, targets[1]))
    finally:
        file.write_text(original, encoding="utf-8")
    measure(plan, project)
    return rows


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[500, 2000], help="sizes of layered projects")
    parser.add_argument("--chain", type=int, default=1000, help="length of the chain; 0 for none")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the built projects here and reuse them")
    arguments = parser.parse_args()
    targets = {500: ("", "0.4"), 2000: ("0.5", "0.8")}
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    rows: list[Row] = []
    with place as folder:
        for models in arguments.models:
            project = Path(folder).resolve() / f"models_{models}"
            files = prepare(project, write_project, models)
            target = targets.get(models, ("", ""))
            rows += measure_project(f"{models} models", project, files[len(files) // 2], arguments.repeats, target)
        if arguments.chain:
            project = Path(folder).resolve() / f"chain_{arguments.chain}"
            files = prepare(project, write_chain, arguments.chain)
            rows += measure_project(f"chain of {arguments.chain}", project, files[0], arguments.repeats, ("1.0", "1.0"))
    cells = [row.cells() for row in rows]
    print(table(HEADINGS, cells))
    words = f"bench/estate.py --models {' '.join(map(str, arguments.models))} --repeats {arguments.repeats}"
    print(f"\n{markdown(words, HEADINGS, cells)}")


if __name__ == "__main__":
    main()
