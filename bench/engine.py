"""A build after the edit of one small model, with a Spark of its own and on the warm engine: as a user waits.

The project is the example, a small shop. With --keep it stays, and the next run starts from it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

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


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cold-repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the built project here and reuse it")
    arguments = parser.parse_args()
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    with place as folder:
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
