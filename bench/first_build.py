"""The first build of N small models, side by side with the same statements in one bare Spark session.

Both sides are whole processes with the same Spark settings, the same Iceberg catalog on SQLite and the same queries
(from `sqb compile --json`). The bare side runs them one after another, as a script written by hand would.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from layered import SEED_TYPES, write_project
from noop import document, markdown, sqb, table, timed
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection
from sqb.spark.session.conf import build_session_conf

HEADINGS = ("side", "models", "whole s", "start s", "statements s", "whole ratio", "statements ratio", "peak MB")


@dataclass(frozen=True, slots=True)
class Side:
    """One measured process with all it started, split where its first model appears.

    Neither side can see into the other's clock, so both are split by the same yardstick: the times at which table
    metadata was written. The session's start, and in both cases the first statement's warm-up, come before.
    """

    whole: float
    start: float
    statements: float
    peak_mb: float


@dataclass(slots=True)
class MemoryWatch:
    """The most memory that the processes below this one held: Spark's is in the JVM, which a process's own peak omits.

    It reads /proc; where there is none the peak is 0.
    """

    peaks: dict[int, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def look(self, pid: int) -> None:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            # A process may end between two looks at it.
            with suppress(OSError):
                for child in map(int, children.read_text().split()):
                    status = Path(f"/proc/{child}/status").read_text()
                    self.peaks.update((child, int(line.split()[1])) for line in status.splitlines() if "VmHWM" in line)
                    self.look(child)

    def watch(self) -> None:
        while not self.ended.wait(0.5):
            self.look(os.getpid())

    def __enter__(self) -> Self:
        threading.Thread(target=self.watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    @property
    def megabytes(self) -> float:
        return sum(self.peaks.values()) / 1024


def measured(command: list[str], folder: Path, warehouse: Path) -> Side:
    """Run one side and split its time."""
    began = time.time()
    with MemoryWatch() as memory:
        run = timed(command, folder)
    # What sqb remembers for itself, and seeds, which it loads without Spark, are in its whole time, but say nothing
    # about when the first model was written.
    files = (file.relative_to(warehouse) for file in warehouse.rglob("*.metadata.json"))
    models = (file for file in files if file.parts[0] != "seeds" and "_sqlbuild_" not in str(file))
    written = [(warehouse / file).stat().st_mtime for file in models]
    if not written:
        sys.exit(f"{' '.join(command)} wrote no table below {warehouse}")
    return Side(run.seconds, min(written) - began, max(written) - min(written), memory.megabytes)


def measure_sqb(folder: Path, models: int) -> Side:
    """`sqb build` of a project that was never built."""
    write_project(folder, models)
    return measured([sqb(), "build"], folder, folder / "lake" / "data")


def measure_bare(folder: Path, models: int, conf: list[str]) -> Side:
    """The same statements in one bare session, in a process of its own."""
    write_project(folder, models)
    compiled = folder / "compiled.json"
    compiled.write_text(json.dumps(document([sqb(), "compile", "--json"], folder)), encoding="utf-8")
    command = [sys.executable, str(Path(__file__).resolve()), "--bare", str(folder)]
    return measured([*command, *(f"--conf={setting}" for setting in conf)], folder, folder / "bare" / "data")


def parts(relation: str) -> list[str]:
    """A relation's name as catalog, schema and name."""
    split = [part.strip("`") for part in relation.split(".")]
    return split if len(split) == 3 else ["lake", *split[-2:]]


def quoted(names: list[str]) -> str:
    return ".".join(f"`{name}`" for name in names)


def session(folder: Path, conf: list[str]) -> Any:
    """A bare session with the very settings that sqb starts its own with, on a catalog of its own."""
    # The benchmark's own half needs no Spark: only this process pays for the import.
    from pyspark.sql import SparkSession

    bare = folder / "bare"
    bare.mkdir()
    place = LakeLocation.embedded(bare / "catalog.db", bare / "data")
    ours = build_session_conf(Connection(), place, bare / "scratch", os.cpu_count() or 2)
    settings = {**ours, **dict(setting.split("=", 1) for setting in conf)}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run_bare(folder: Path, conf: list[str]) -> None:
    """The bare side: seeds, then every compiled query as CREATE TABLE or CREATE VIEW, in order."""
    nodes = json.loads((folder / "compiled.json").read_text(encoding="utf-8"))["nodes"]
    models = [node for node in nodes if node.get("sql") and node["kind"] in ("table", "view")]
    spark = session(folder, conf)
    for schema in sorted({parts(node["relation"])[1] for node in models} | {"seeds"}):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(['lake', schema])}")
    for name, types in SEED_TYPES.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in types.items())
        rows = spark.read.schema(columns).option("header", True).csv(str(folder / "seeds" / f"{name}.csv"))
        rows.createOrReplaceTempView(f"csv_{name}")
        spark.sql(f"CREATE TABLE {quoted(['lake', 'seeds', name])} USING iceberg AS SELECT * FROM csv_{name}")
    for node in models:
        relation = quoted(parts(node["relation"]))
        what = f"VIEW {relation}" if node["kind"] == "view" else f"TABLE {relation} USING iceberg"
        spark.sql(f"CREATE {what} AS {node['sql']}")
    spark.stop()


def report(ours: list[Side], bare: list[Side], models: int) -> None:
    """Print both sides and how many times longer sqb takes."""

    def middle(sides: list[Side], value: Callable[[Side], float]) -> float:
        return statistics.median(map(value, sides))

    def ratio(sides: list[Side], value: Callable[[Side], float]) -> str:
        return f"{middle(sides, value) / middle(bare, value):.2f}"

    def cells(name: str, sides: list[Side]) -> tuple[str, ...]:
        return (
            name,
            str(models),
            f"{middle(sides, lambda side: side.whole):.1f}",
            f"{middle(sides, lambda side: side.start):.1f}",
            f"{middle(sides, lambda side: side.statements):.1f}",
            ratio(sides, lambda side: side.whole),
            ratio(sides, lambda side: side.statements),
            f"{middle(sides, lambda side: side.peak_mb):.0f}",
        )

    rows = [cells("bare Spark", bare), cells("sqb build", ours)]
    print(table(HEADINGS, rows))
    print(f"\n{markdown(f'bench/first_build.py --models {models} --rounds {len(ours)}', HEADINGS, rows)}")


def main() -> None:
    """Read the arguments, run both sides in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2, help="each round runs both sides; medians are printed")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark setting, bare side only"
    )
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare, arguments.conf)
        return
    ours: list[Side] = []
    bare: list[Side] = []
    with tempfile.TemporaryDirectory(prefix="sqb-bench-") as name:
        folder = Path(name).resolve()
        for number in range(arguments.rounds):
            # The side that goes first finds the jars cold on disk, so the sides take turns.
            sides = [
                lambda at=folder / f"bare_{number}": bare.append(measure_bare(at, arguments.models, arguments.conf)),
                lambda at=folder / f"sqb_{number}": ours.append(measure_sqb(at, arguments.models)),
            ]
            for side in sides if number % 2 == 0 else reversed(sides):
                side()
    report(ours, bare, arguments.models)


if __name__ == "__main__":
    main()
