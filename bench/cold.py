"""The example's first build and one small query, cold, against the same statements in a bare Spark session.

What is measured is processor time, of a process and all that it starts: it says what a cold start costs, whatever else
the machine does. "Bare" is a script written by hand: the settings that reach the lake, and Java as it comes. sqb runs
twice: on a machine that has never started it (no archive of classes), and with the archive that it has made since.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from first_build import parts, quoted
from noop import document, markdown, sqb, table
from sqb.errors.base import Errors
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection
from sqb.project.seeds import load_seed
from sqb.spark.session.class_archive import VARIABLE
from sqb.spark.session.conf import build_session_conf
from sqb.spark.session.java_options import JAVA_OPTIONS
from sqb.types.format import format_sql_type

HEADINGS = ("work", "side", "CPU s median", "min", "max", "of bare Spark", "target", "load")
QUERY = "select 1"
# At most so many CPU-seconds, and at most this share of what bare Spark takes; the seconds are for a quiet machine.
TARGETS = {
    ("first build", "sqb, first run"): (29.0, None),
    ("first build", "sqb, archive"): (20.0, 0.6),
    (QUERY, "sqb, archive"): (None, 0.6),
}


@dataclass(slots=True)
class Side:
    """One way to do some work, measured several times."""

    work: str
    name: str
    seconds: list[float] = field(default_factory=list)


def measure_cpu(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> float:
    """Run a command to its end; the processor time of it and of all that it waited for."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env={**os.environ, **more})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{output.read().decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


def write_example(folder: Path) -> Path:
    """The example, as `sqb init` writes it, with its queries compiled."""
    subprocess.run([sqb(), "init", str(folder)], check=True, stdout=subprocess.DEVNULL)
    compiled = document([sqb(), "compile", "--json"], folder)
    (folder / "compiled.json").write_text(json.dumps(compiled), encoding="utf-8")
    return folder


def prepare_archive(cache: Path) -> float:
    """Have the archive made by the interpreter of the command, for whose paths it is; the processor time of that."""
    interpreter = Path(sqb()).read_text(encoding="utf-8").splitlines()[0].removeprefix("#!")
    script = Path(__file__).resolve().parent.parent / "scripts" / "prepare_spark.py"
    return measure_cpu([interpreter, str(script)], cache.parent, {"XDG_CACHE_HOME": str(cache)})


def run_bare(folder: Path, work: str) -> None:
    """The bare side, in a process of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    bare = folder / "bare"
    bare.mkdir()
    place = LakeLocation.embedded(bare / "catalog.db", bare / "data")
    builder: Any = SparkSession.builder
    for key, value in build_session_conf(Connection(), place, bare / "scratch", os.cpu_count() or 2).items():
        if key != JAVA_OPTIONS:
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if work == QUERY:
        spark.sql(QUERY).show()
    else:
        _run_statements(spark, folder)
    spark.stop()
    # Only what has been waited for is counted.
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait()


def _run_statements(spark: Any, folder: Path) -> None:
    """Seeds, then every compiled query as CREATE TABLE or CREATE VIEW, in order."""
    nodes = json.loads((folder / "compiled.json").read_text(encoding="utf-8"))["nodes"]
    for schema in sorted({parts(node["relation"])[1] for node in nodes}):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(['lake', schema])}")
    for node in nodes:
        relation, file = quoted(parts(node["relation"])), folder / node["file"]
        if node["type"] == "seed":
            seed = load_seed(folder, file, Errors())
            assert seed is not None
            columns = ", ".join(f"`{column.name}` {format_sql_type(column.type)}" for column in seed.columns)
            spark.read.schema(columns).option("header", True).csv(str(file)).createOrReplaceTempView("rows")
            spark.sql(f"CREATE TABLE {relation} USING iceberg AS SELECT * FROM rows")
        else:
            what = f"VIEW {relation}" if node["kind"] == "view" else f"TABLE {relation} USING iceberg"
            spark.sql(f"CREATE {what} AS {node['sql']}")


def measure_round(number: int, folder: Path, sides: Sequence[Side], caches: Mapping[str, Path]) -> None:
    """Every side once; each build on an example of its own, each query on the example of its side."""
    for turn, side in enumerate(sides if number % 2 == 0 else reversed(sides)):
        project = write_example(folder / f"{number}_{turn}")
        if side.name == "bare Spark":
            command = [sys.executable, str(Path(__file__).resolve()), "--bare", str(project), "--work", side.work]
            environment = {}
        else:
            command = [sqb(), "query", QUERY] if side.work == QUERY else [sqb(), "build"]
            # Nothing is made behind the back of what is measured next.
            environment = {"XDG_CACHE_HOME": str(caches[side.name]), VARIABLE: "use"}
        side.seconds.append(measure_cpu(command, project, environment))
        print(f"{side.work}, {side.name}: {side.seconds[-1]:.1f} CPU s", file=sys.stderr, flush=True)


def build_rows(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    """The lines of the result."""
    bare = {side.work: statistics.median(side.seconds) for side in sides if side.name == "bare Spark"}
    load = f"{os.getloadavg()[2]:.1f}"
    rows = []
    for side in sides:
        middle = statistics.median(side.seconds)
        seconds, share = TARGETS.get((side.work, side.name), (None, None))
        targets = [f"{seconds:.0f} s" if seconds else "", f"{share:.2f}" if share else ""]
        spread = (f"{middle:.1f}", f"{min(side.seconds):.1f}", f"{max(side.seconds):.1f}")
        rows.append(
            (side.work, side.name, *spread, f"{middle / bare[side.work]:.2f}", ", ".join(filter(None, targets)), load)
        )
    return rows


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="each round runs every side once; medians are printed")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare, arguments.work)
        return
    names = ("bare Spark", "sqb, first run", "sqb, archive")
    sides = [Side(work, name) for work in ("first build", QUERY) for name in names]
    with tempfile.TemporaryDirectory(prefix="sqb-bench-") as name:
        folder = Path(name).resolve()
        caches = {"sqb, first run": folder / "empty", "sqb, archive": folder / "cache"}
        seconds = prepare_archive(caches["sqb, archive"])
        print(f"making the archive, once: {seconds:.1f} CPU s", file=sys.stderr, flush=True)
        for number in range(arguments.rounds):
            measure_round(number, folder, sides, caches)
    rows = build_rows(sides)
    print(table(HEADINGS, rows))
    print(f"\n{markdown(f'bench/cold.py --rounds {arguments.rounds}', HEADINGS, rows)}")


if __name__ == "__main__":
    main()
