"""Virtual environments of many models: a build with nothing to do, a new environment, a promotion, a rollback.

Whole processes, as a user waits. With --keep the built project stays, and the next run starts from it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from layered import edit, write_project
from noop import Run, document, first_build, markdown, sqb, started_jvm, table, timed

HEADINGS = ("models", "command", "median s", "min s", "JVM started", "nodes that ran", "views moved")
CHANGED = 3


def cells(models: int, what: str, runs: list[Run], jvm: str, ran: object, moved: object) -> tuple[str, ...]:
    """One line of the result."""
    seconds = sorted(run.seconds for run in runs)
    return (str(models), what, f"{seconds[len(seconds) // 2]:.3f}", f"{seconds[0]:.3f}", jvm, str(ran), str(moved))


def nothing_to_do(project: Path, models: int, repeats: int) -> tuple[str, ...]:
    """A build into an environment that shows everything already."""
    command = [sqb(), "build"]
    timed(command, project)
    runs = [timed(command, project) for _ in range(repeats)]
    jvm, found = started_jvm(command, project)
    return cells(models, "sqb build", runs, jvm, found["summary"]["ran"], found["environment"]["views_moved"])


def new_environment(project: Path, models: int, mark: str) -> tuple[str, ...]:
    """An environment in which nothing differs: its views, and nothing else."""
    name = f"same_{mark}"
    run = timed([sqb(), "build", "--virtual-env", name], project)
    jvm, found = started_jvm([sqb(), "build", "--virtual-env", f"{name}_again"], project)
    moved = found["environment"]["views_moved"]
    return cells(models, "sqb build, new environment, nothing changed", [run], jvm, found["summary"]["ran"], moved)


def changed_environment(project: Path, models: int, mark: str, files: list[Path]) -> list[tuple[str, ...]]:
    """An environment with three changed models that nothing reads, promoted and rolled back."""
    originals = {file: file.read_text(encoding="utf-8") for file in files}
    name = f"pr_{mark}"
    rows = []
    start = timed([sqb(), "query", "SELECT 1"], project)
    rows.append(cells(models, "sqb query 'SELECT 1' (Spark's start)", [start], "yes", "", ""))
    try:
        for file in files:
            edit(file)
        before = os.times()
        built = document([sqb(), "build", "--virtual-env", name, "--json"], project)
        seconds = os.times().elapsed - before.elapsed
        ran = built["summary"]["ran"]
        at_work = max(n["seconds"] or 0 for n in built["nodes"])
        what = f"sqb build, new environment, {CHANGED} changed (longest node {at_work:.1f} s)"
        rows.append(cells(models, what, [Run(seconds, 0)], "yes", ran, built["environment"]["views_moved"]))
        command = [sqb(), "promote", "--from", name, "--to", "dev"]
        promoted = timed(command, project)
        rows.append(cells(models, "sqb promote, 3 changed", [promoted], "no", 0, CHANGED))
        rolled = timed([sqb(), "rollback"], project)
        rows.append(cells(models, "sqb rollback", [rolled], "no", 0, CHANGED))
    finally:
        for file, text in originals.items():
            file.write_text(text, encoding="utf-8")
    return rows


def leaves(project: Path) -> list[Path]:
    """Models that nothing reads."""
    files = sorted((project / "models").rglob("*.sql"))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    unread = [f for f in files if not any(f.stem in text for other, text in texts.items() if other != f)]
    return unread[-CHANGED:]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the built project here and reuse it")
    arguments = parser.parse_args()
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    with place as folder:
        project = Path(folder).resolve() / f"virtual_{arguments.models}"
        if not (project / "lake" / "catalog.db").exists():
            write_project(project, arguments.models)
            with (project / "sqlbuild_project.toml").open("a", encoding="utf-8") as file:
                file.write("\n[virtual]\nenabled = true\n")
        built = first_build(project, arguments.models)
        print(f"{arguments.models} models: built or checked in {built:.1f} s", file=sys.stderr, flush=True)
        mark = os.urandom(3).hex()
        rows = [
            nothing_to_do(project, arguments.models, arguments.repeats),
            new_environment(project, arguments.models, mark),
            *changed_environment(project, arguments.models, mark, leaves(project)),
        ]
    print(table(HEADINGS, rows))
    print(f"\n{markdown(f'bench/environments.py --models {arguments.models}', HEADINGS, rows)}")


if __name__ == "__main__":
    main()
