"""A build after the edit of one small model, with a Spark of its own and on the warm engine: as a user waits.

The project is the example, a small shop; a second table has a day's commands in one of 50 small models. With --keep
they stay, and the next run starts from them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from noop import Run, document, markdown, sqb, table, timed

HEADINGS = ("edited model", "Spark", "median s", "min s", "max s", "nodes that ran")
# One that nothing reads; and one that much is made of, and whose rows the edit leaves as they are.
LEAF = "models/marts/product_sales.sql"
SPRING = "models/staging/stg_orders.sql"
_edits = itertools.count(1)


def edited(text: str) -> str:
    """Another query with the same rows: one more status that no order has, and never the same one twice."""
    return text.replace("'returned'", f"'returned', 'edit {os.getpid()} {next(_edits)}'", 1)


def measured(project: Path, model: str, spark: str, repeats: int) -> tuple[str, ...]:
    """One line of the result: the same model edited again and again, and built each time."""
    file = project / model
    text = file.read_text(encoding="utf-8")
    runs: list[Run] = []
    ran = 0
    try:
        for turn in range(repeats + 1):
            file.write_text(edited(text), encoding="utf-8")
            if turn < repeats:
                runs.append(timed([sqb(), "build"], project))
            else:
                ran = document([sqb(), "build", "--json"], project)["summary"]["ran"]
    finally:
        file.write_text(text, encoding="utf-8")
        timed([sqb(), "build"], project)
    seconds = sorted(run.seconds for run in runs)
    middle = seconds[len(seconds) // 2]
    return (model, spark, f"{middle:.2f}", f"{seconds[0]:.2f}", f"{seconds[-1]:.2f}", str(ran))


@contextmanager
def engine(project: Path) -> Iterator[float]:
    """An engine that runs; how long its start took."""
    start = time.perf_counter()
    timed([sqb(), "engine", "start"], project)
    try:
        yield time.perf_counter() - start
    finally:
        timed([sqb(), "engine", "stop", "--now"], project)


DAY_HEADINGS = (
    "on a warm engine, 50 models",
    "median s",
    "min s",
    "max s",
    "times a bare Python",
    "engine's CPU s",
    "ran",
)
# So many models read the seed of this name.
READERS = {"one": 1, "many": 20, "others": 29}


def write_day(folder: Path) -> None:
    """A project of 50 small models over three seeds."""
    folder.mkdir(parents=True)
    (folder / "sqlbuild_project.toml").write_text('name = "day"\n', encoding="utf-8")
    for name in ("seeds", "models"):
        (folder / name).mkdir()
    for seed, readers in READERS.items():
        rows = "".join(f"{i},{i % 7},{i * 3}\n" for i in range(1000))
        (folder / "seeds" / f"{seed}.csv").write_text(f"id,grp,amount\n{rows}", encoding="utf-8")
        for reader in range(readers):
            query = f"SELECT grp, sum(amount) + {reader} AS amount FROM {seed} WHERE id >= 0 GROUP BY grp\n"
            (folder / "models" / f"{seed}_{reader}.sql").write_text(query, encoding="utf-8")


def add_rows(seed: str) -> Callable[[Path], None]:
    """A hundred more rows in a seed."""

    def change(folder: Path) -> None:
        number = next(_edits) * 1000
        with open(folder / "seeds" / f"{seed}.csv", "a", encoding="utf-8") as file:
            file.writelines(f"{number + i},{i % 7},{i}\n" for i in range(100))

    return change


def edit_model(folder: Path) -> None:
    """Another query in one model."""
    file = folder / "models" / "one_0.sql"
    file.write_text(re.sub(r"id >= -?\d+", f"id >= -{next(_edits)}", file.read_text()), encoding="utf-8")


def edit_comment(folder: Path) -> None:
    """Another comment in one model."""
    with open(folder / "models" / "one_0.sql", "a", encoding="utf-8") as file:
        file.write(f"-- {next(_edits)}\n")


def leave(_: Path) -> None:
    """Change nothing."""


BUILD, QUERY = ("build",), ("query", "SELECT 1 AS one")
SCENARIOS: tuple[tuple[str, Callable[[Path], None], tuple[str, ...]], ...] = (
    ("one model edited", edit_model, BUILD),
    ("one seed changed, 49 models skipped", add_rows("one"), BUILD),
    ("another seed changed, 20 models run", add_rows("many"), BUILD),
    ("a comment edited", edit_comment, BUILD),
    ("nothing changed", leave, BUILD),
    ("a query", leave, QUERY),
)


def measure_day(folder: Path, repeats: int) -> list[tuple[str, ...]]:
    """What a day's commands take on a warm engine."""
    bare = statistics.median(timed([sys.executable, "-c", "pass"], folder).seconds for _ in range(repeats))
    pid = document([sqb(), "engine", "status", "--json"], folder)["pid"]
    rows = []
    for name, change, command in SCENARIOS:
        seconds, cpu = [], []
        for _ in range(repeats + 1):
            change(folder)
            before = session_cpu(pid)
            seconds.append(timed([sqb(), *command], folder).seconds)
            cpu.append(session_cpu(pid) - before)
        # The first one warms up what only this command does.
        seconds, cpu = seconds[1:], cpu[1:]
        change(folder)
        ran = document([sqb(), *BUILD, "--json"], folder)["summary"]["ran"] if command == BUILD else 0
        middle = statistics.median(seconds)
        figures = (middle, min(seconds), max(seconds), middle / bare, statistics.median(cpu))
        rows.append((name, *(f"{figure:.2f}" for figure in figures), str(ran)))
    return rows


def session_cpu(session: int) -> float:
    """The processor time of an engine's processes so far, and of those that they have waited for."""
    total = 0.0
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session:
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def run_day(parent: Path, repeats: int) -> None:
    """The scenarios of a day, on an engine of their own."""
    folder = parent / "day"
    if not folder.exists():
        write_day(folder)
    with engine(folder):
        timed([sqb(), "build"], folder)
        rows = measure_day(folder, repeats)
    print(table(DAY_HEADINGS, rows))
    print(f"\n{markdown(f'bench/engine.py --only day --repeats {repeats}', DAY_HEADINGS, rows)}")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cold-repeats", type=int, default=3)
    parser.add_argument("--only", choices=("edit", "day"), help="one of the two tables")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the built project here and reuse it")
    arguments = parser.parse_args()
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    with place as folder:
        if arguments.only != "edit":
            run_day(Path(folder).resolve(), arguments.repeats)
        if arguments.only == "day":
            return
        project = Path(folder).resolve() / "shop"
        if not project.exists():
            subprocess.run([sqb(), "init", str(project)], check=True, stdout=subprocess.DEVNULL)
        timed([sqb(), "build"], project)
        rows = [measured(project, LEAF, "of its own", arguments.cold_repeats)]
        with engine(project) as seconds:
            print(f"sqb engine start: {seconds:.1f} s", file=sys.stderr)
            first = timed([sqb(), "build", "--force", "-s", "product_sales"], project)
            print(f"the first build on it: {first.seconds:.1f} s", file=sys.stderr)
            rows += [measured(project, model, "warm engine", arguments.repeats) for model in (LEAF, SPRING)]
    print(table(HEADINGS, rows))
    print(f"\n{markdown(f'bench/engine.py --repeats {arguments.repeats}', HEADINGS, rows)}")


if __name__ == "__main__":
    main()
