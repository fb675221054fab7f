"""What `sqb validate` costs, cold, after an edit and when nothing changed: processor time of whole processes.

Beside it, what compiling alone costs (`sqb compile` of one model compiles all of them), so that the share of column
analysis is seen. Processor time, as it says the same on a machine that does other things too, and beside it the time by
the clock, which several cores make shorter.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from layered import edit, write_project

# As installed: its modules are compiled once, not at every start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
_COMMAND = [sys.executable, "-c", "from sqb.cli.entry import main; main()"]


def main() -> None:
    """Print one line for each command."""
    parser = argparse.ArgumentParser(description="Measure sqb validate.")
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        files = write_project(root, arguments.models)
        last = files[-1].stem

        def forget() -> None:
            shutil.rmtree(root / ".sqb", ignore_errors=True)

        def edit_first() -> None:
            edit(files[len(files) // 2])

        run(root, ["validate"])
        rows: list[tuple[str, Callable[[], object], list[str]]] = [
            ("nothing but starting", lambda: None, ["--version"]),
            ("compile, cold", forget, ["compile", "-s", last]),
            ("validate, cold", forget, ["validate"]),
            ("validate, one model edited", edit_first, ["validate"]),
            ("validate, nothing changed", lambda: None, ["validate"]),
        ]
        for name, prepare, words in rows:
            runs = []
            for _ in range(arguments.rounds):
                prepare()
                runs.append(run(root, words))
            cpu, clock = (statistics.median(seconds) for seconds in zip(*runs, strict=True))
            print(f"{arguments.models} models  {name:28} {cpu:.2f} CPU-s {clock:.2f} s")


def run(root: Path, words: list[str]) -> tuple[float, float]:
    """The processor time of one command, and the time by the clock."""
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*_COMMAND, *words], cwd=root, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


if __name__ == "__main__":
    main()
