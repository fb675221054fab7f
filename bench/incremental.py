"""Bringing a model up to date from a small change, against its own full rebuild and the best hand-written refresh.

A fact table partitioned by day, a dimension, and two models: `join + group by region, day`, and a linear one (filter
and lookup join). Everything runs in one Spark application, side by side; every result is compared with a full one.

    python bench/incremental.py [--rows 20000000] [--days 100]
    python bench/incremental.py --repeat 12 [--rows 20000000]
    python bench/incremental.py --crossover [--rows 5000000]

With `--repeat` only the aggregate is measured, for so many changes of 0.1 % one after the other.
With `--crossover` the cost gate is off, and ever more days change: where following stops to pay is what the gate's
`max_share` should be; and the same small change is made to ever smaller facts, for `min_rows`.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqb.build.context import BuildSettings
from sqb.build.observe.lake import observe_lake
from sqb.build.result import generate_run_id
from sqb.build.scheduler import Build
from sqb.lake.open import open_lake
from sqb.operations.plan import decide_plan
from sqb.plan.model import Options
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.spark.session.local import start_engine
from sqb.workspace import open_workspace

AGGREGATE = """
SELECT c.region, f.day, count(*) AS n, sum(f.amount) AS amount
FROM raw.fact f JOIN raw.dim c ON f.customer_id = c.id
GROUP BY c.region, f.day
"""
LINEAR = """
SELECT f.id, f.day, f.amount, c.region
FROM raw.fact f JOIN raw.dim c ON f.customer_id = c.id
WHERE f.amount > 20
"""


class Engine:
    """The bench's own Spark, for builds in this process."""

    started, failed, gone, start_span = True, None, False, None

    def __init__(self, engine: Any) -> None:
        self._session = engine.worker_session()

    def warm(self) -> None: ...
    def cancel(self) -> None: ...
    def stop(self) -> None: ...
    def session(self) -> Any:
        return self._session


class Bench:
    """One project on one lake, built again and again."""

    def __init__(self, folder: Path, rows: int, days: int, gate: str = "") -> None:
        self.folder, self.rows, self.days = folder, rows, days
        (folder / "models" / "m").mkdir(parents=True)
        (folder / "sqlbuild_project.toml").write_text(f'name = "bench"\n{gate}')
        (folder / "models/m/by_region.sql").write_text(f"-- @kind: table\n{AGGREGATE}")
        (folder / "models/m/wide.sql").write_text(f"-- @kind: table\n-- @partitioned_by: day\n{LINEAR}")
        lake = folder / "lake"
        lake.mkdir()
        connection = Connection(spark=SparkSettings(conf={"spark.driver.memory": "6g"}))
        place = LakeLocation.embedded(lake / "catalog.db", lake / "data")
        self.raw = start_engine(connection, place, folder / "spark.log", lambda text: None, 2)
        self.engine = Engine(self.raw)
        self.spark = self.raw.worker_session()

    def sources(self) -> None:
        """Make the fact and the dimension."""
        per_day = self.rows // self.days
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
        self.spark.sql("CREATE TABLE lake.raw.dim AS SELECT id, concat('r', id % 4) AS region FROM range(100000)")
        self.spark.sql(
            "CREATE TABLE lake.raw.fact (id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), day DATE)"
            " PARTITIONED BY (day)"
        )
        self.spark.sql(
            f"""INSERT INTO lake.raw.fact SELECT id, (id * 7919) % 100000, CAST((id % 10000) / 100 AS DECIMAL(12,2)),
            date_add(DATE '2026-01-01', CAST(id / {per_day} AS INT)) FROM range({self.rows}) ORDER BY 4"""
        )

    def build(self, full: bool = False, select: str | None = None) -> dict[str, Any]:
        """Build, and return each node's outcome by name."""
        workspace = open_workspace(self.folder)
        lake = open_lake(workspace)
        seen = observe_lake(workspace, lake)
        chosen = frozenset({select}) if select else None
        plan = decide_plan(workspace, lake, seen, Options(chosen, full_refresh=full))
        settings = BuildSettings(generate_run_id(), 1)
        engine: Any = self.engine
        result = Build(workspace, lake, seen, plan, engine, settings, lambda event: None).run()
        for node in result.nodes:
            if node.error is not None:
                raise SystemExit(f"{node.planned.name}: {node.error}")
        return {n.planned.name: n for n in result.nodes}

    def check(self, name: str, query: str) -> None:
        """Compare a model with its query, as multisets."""
        text = query.replace("raw.", "lake.raw.")
        for left, right in ((f"SELECT * FROM lake.m.{name}", text), (text, f"SELECT * FROM lake.m.{name}")):
            if self.spark.sql(
                f"SELECT count(*) FROM ((SELECT * FROM ({left})) EXCEPT ALL (SELECT * FROM ({right})))"
            ).collect()[0][0]:
                raise SystemExit(f"{name} is not what a full rebuild gives")

    def by_hand(self, day: datetime.date) -> float:
        """The best hand-written refresh of the aggregate: recompute the affected partition and replace it."""
        return timed(
            lambda: self.spark.sql(
                f"""INSERT OVERWRITE lake.m.by_hand SELECT * FROM ({AGGREGATE.replace("raw.", "lake.raw.")})
                WHERE day = DATE '{day}'"""
            )
        )


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def change(bench: Bench, share: float, day: datetime.date) -> None:
    """Insert `share` of the fact's rows into one day, and update and delete a twentieth of that each."""
    count = int(bench.rows * share)
    few = max(1, count // 20)
    spark = bench.spark
    spark.sql(
        f"""INSERT INTO lake.raw.fact SELECT id + 1000000000, id % 100000, CAST(33.5 AS DECIMAL(12,2)), DATE '{day}'
        FROM range({count})"""
    )
    low = (day - datetime.date(2026, 1, 1)).days * (bench.rows // bench.days)
    spark.sql(
        f"UPDATE lake.raw.fact SET amount = amount + 1"
        f" WHERE day = DATE '{day}' AND id BETWEEN {low} AND {low + few - 1}"
    )
    spark.sql(f"DELETE FROM lake.raw.fact WHERE day = DATE '{day}' AND id BETWEEN {low + few} AND {low + 2 * few - 1}")


def change_half(bench: Bench) -> None:
    bench.spark.sql("UPDATE lake.raw.fact SET amount = amount + 1 WHERE id % 2 = 0")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--crossover", action="store_true")
    parser.add_argument("--repeat", type=int, default=0)
    given = parser.parse_args()
    if given.repeat:
        repeated(given.rows, given.days, given.repeat)
        return
    if given.crossover:
        crossover(given.rows, given.days)
        return
    folder = Path(tempfile.mkdtemp(prefix="sqb-bench-"))
    bench = Bench(folder, given.rows, given.days)
    lines: list[str] = []
    try:
        print(f"making {given.rows:,} rows", file=sys.stderr)
        bench.sources()
        bench.build()
        bench.spark.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
        bench.spark.sql(f"CREATE TABLE lake.m.by_hand PARTITIONED BY (day) AS {AGGREGATE.replace('raw.', 'lake.raw.')}")
        bench.build(full=True)
        for label, share, index in (("0.1 %", 0.001, 40), ("0.1 %", 0.001, 41), ("1 %", 0.01, 60), ("50 %", 0.5, 0)):
            lines.append(scenario(bench, label, share, datetime.date(2026, 1, 1) + datetime.timedelta(days=index)))
            print(lines[-1], file=sys.stderr)
    finally:
        bench.raw.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("| date | rows | change | model | run | sqb | full rebuild | faster | by hand | against by hand |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


def repeated(rows: int, days: int, times: int) -> None:
    """The same small change again and again, by hand and by sqb in turns, so that neither is always the first."""
    folder = Path(tempfile.mkdtemp(prefix="sqb-bench-"))
    bench = Bench(folder, rows, days)
    (folder / "models/m/wide.sql").unlink()
    try:
        bench.sources()
        bench.build()
        bench.spark.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
        bench.spark.sql(f"CREATE TABLE lake.m.by_hand PARTITIONED BY (day) AS {AGGREGATE.replace('raw.', 'lake.raw.')}")
        bench.build(full=True)
        ratios = []
        for index in range(times):
            day = datetime.date(2026, 1, 1) + datetime.timedelta(days=index % days)
            change(bench, 0.001, day)
            before = bench.by_hand(day) if index % 2 else None
            node = bench.build()["m.by_region"]
            hand = before if before is not None else bench.by_hand(day)
            ratios.append(node.seconds / hand)
            print(f"{node.run_type}: sqb {node.seconds:.2f} s, by hand {hand:.2f} s, {ratios[-1]:.2f}x", flush=True)
        bench.check("by_region", AGGREGATE)
        full = bench.build(full=True)["m.by_region"].seconds
        warm = sorted(ratios[2:])
        print(f"without the first two: median {warm[len(warm) // 2]:.2f}x, mean {sum(warm) / len(warm):.2f}x;", end=" ")
        print(f"a full rebuild takes {full:.2f} s")
    finally:
        bench.raw.stop()
        shutil.rmtree(folder, ignore_errors=True)


def crossover(rows: int, days: int) -> None:
    """Follow changes of ever more days, and of ever smaller facts, with the cost gate off."""
    print("| date | rows | changed days | model | followed | full rebuild | faster |")
    print("|---|---|---|---|---|---|---|")
    for size, changes in ((rows, (2, 5, 10, 20, 30, 40)), *((r, (1, 1)) for r in (2_000_000, 1_000_000, 400_000))):
        folder = Path(tempfile.mkdtemp(prefix="sqb-bench-"))
        bench = Bench(folder, size, days, "[incremental]\nmin_rows = 0\nmax_share = 100.0\n")
        try:
            bench.sources()
            bench.build()
            first = datetime.date(2026, 1, 1)
            for count in (1, *changes):
                last = first + datetime.timedelta(days=count - 1)
                bench.spark.sql(
                    f"UPDATE lake.raw.fact SET amount = amount + 1 WHERE day BETWEEN DATE '{first}' AND DATE '{last}'"
                )
                followed = bench.build()
                for name in ("m.by_region", "m.wide"):
                    full = bench.build(full=True, select=name)[name]
                    seconds = followed[name].seconds
                    print(
                        f"| {datetime.date.today()} | {size:,} | {count} of {days} | {name} {followed[name].run_type}"
                        f" | {seconds:.2f} s | {full.seconds:.2f} s | {full.seconds / seconds:.1f}x |",
                        flush=True,
                    )
        finally:
            bench.raw.stop()
            shutil.rmtree(folder, ignore_errors=True)


def scenario(bench: Bench, label: str, share: float, day: datetime.date) -> str:
    """One change, brought up to date by sqb and by hand, then rebuilt in full."""
    if share < 0.5:
        change(bench, share, day)
    else:
        change_half(bench)
    hand = bench.by_hand(day) if share < 0.5 else None
    found = bench.build()
    bench.check("by_region", AGGREGATE)
    rows = []
    for name, query in (("by_region", AGGREGATE), ("wide", LINEAR)):
        node = found[f"m.{name}"]
        bench.check(name, query)
        rebuilt = bench.build(full=True, select=f"m.{name}")[f"m.{name}"]
        by_hand = hand if name == "by_region" else None
        rows.append(
            f"| {datetime.date.today()} | {bench.rows:,} | {label} | {name} | {node.run_type} | {node.seconds:.2f} s"
            f" | {rebuilt.seconds:.2f} s | {rebuilt.seconds / node.seconds:.1f}x"
            f" | {f'{by_hand:.2f} s' if by_hand else ''} | {f'{node.seconds / by_hand:.2f}x' if by_hand else ''} |"
        )
        print(f"{name}: {node.run_type} {node.detail}", file=sys.stderr)
    return "\n".join(rows)


if __name__ == "__main__":
    main()
