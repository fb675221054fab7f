"""TPC-H after a refresh of 0.1 %: sqb's refresh of each query against its own rebuild, in one warm session.

New orders with their lineitems come and as many old ones leave, as in the benchmark's own refresh functions. Each query
is a model without its final ORDER BY and LIMIT; every result is compared with a full one.

Orders and lineitems are partitioned by the year of their date, of which their keys say nothing, or lie in the order of
their keys (`--layout keys`), as the rows of most tables do that numbers are given to one after the other.

    python bench/tpch.py [--scale 0.1] [--share 0.001] [--layout years] [--only q01,q03] [--rounds 2] [--profile]
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from side_by_side import Lab, Measured

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

import tpc_env  # noqa: E402

from support.tpc import REFRESHED, read_queries, read_schemas  # noqa: E402

# How large tables are laid out, and the rows that they are filled with.
YEARS = {"orders": "PARTITIONED BY (years(o_orderdate))", "lineitem": "PARTITIONED BY (years(l_shipdate))"}
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}


def make_sources(lab: Lab, scale: str, rows: Path, layout: str) -> None:
    """Fill the tables."""
    if not rows.exists():
        tpc_env.generate("rows", "tpch", scale, str(rows))
    files = max(16, int(16 * float(scale)))
    for table, columns in read_schemas("tpch").items():
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        source = f"SELECT * FROM parquet.`{rows / table}.parquet`"
        if layout == "keys" and table in KEYS:
            hint = f"/*+ REPARTITION_BY_RANGE({files}, {KEYS[table]}) */"
            source = f"SELECT {hint} * FROM parquet.`{rows / table}.parquet` SORT BY {KEYS[table]}"
        lab.sql(
            f"CREATE TABLE lake.raw.{table} ({listed}) {YEARS.get(table, '') if layout == 'years' else ''}"
            " TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
            f"INSERT INTO lake.raw.{table} {source}",
        )


def refresh_sources(lab: Lab, share: float) -> None:
    """As many orders come as leave: new ones are copies of the newest under keys that were never used."""
    low, high, count = lab.spark.sql("SELECT min(o_orderkey), max(o_orderkey), count(*) FROM lake.raw.orders").first()
    orders = max(1, int(count * share))
    copies = f"SELECT o_orderkey AS k FROM lake.raw.orders ORDER BY o_orderkey DESC LIMIT {orders}"
    gone = f"SELECT o_orderkey AS k FROM lake.raw.orders ORDER BY o_orderkey LIMIT {orders}"
    first, last = lab.spark.sql(f"SELECT min(k), (SELECT max(k) FROM ({gone})) FROM ({copies})").first()
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        moved = ", ".join(f"{c} + {high - low}" if c == key else c for c in read_schemas("tpch")[table])
        lab.sql(
            f"INSERT INTO lake.raw.{table} SELECT {moved} FROM lake.raw.{table} WHERE {key} >= {first}",
            f"DELETE FROM lake.raw.{table} WHERE {key} <= {last}",
        )


@dataclass
class Model:
    """A query as two models: one is refreshed, its twin rebuilt, so that either can go first."""

    name: str
    refreshes: list[Measured] = field(default_factory=list)
    rebuilds: list[Measured] = field(default_factory=list)

    def measure(self, lab: Lab, rebuild_first: bool) -> None:
        """Refresh one and rebuild the other; both results are compared with the query."""
        for full in (True, False) if rebuild_first else (False, True):
            done = lab.build(f"{self.name}_again" if full else self.name, full=full)
            (self.rebuilds if full else self.refreshes).append(done)
        lab.check(self.name)
        lab.check(f"{self.name}_again")

    @property
    def ratio(self) -> float:
        """Rebuild / refresh, by the medians of the rounds."""
        return self._median(self.rebuilds) / self._median(self.refreshes)

    def _median(self, runs: list[Measured]) -> float:
        return statistics.median(run.seconds for run in runs)

    def format(self, scale: str) -> str:
        """Its line of the table."""
        refresh, rebuild = self.refreshes[-1], self.rebuilds[-1]
        types = "/".join(dict.fromkeys(run.run_type for run in self.refreshes))
        refreshed, rebuilt = self._median(self.refreshes), self._median(self.rebuilds)
        return (
            f"| {datetime.date.today()} | {scale} | {self.name} | {types} | {refreshed:.2f} s | {refresh.executions}"
            f" | {rebuilt:.2f} s | {rebuild.executions} | {self.ratio:.2f}x |"
        )

    def explain(self) -> str:
        """What the last refresh and the last rebuild did, execution by execution."""
        parts = [f"{self.name}: {self.refreshes[-1].detail}"]
        for what, runs in (("refresh", self.refreshes), ("rebuild", self.rebuilds)):
            parts.append(f"  {what} {runs[-1].seconds:.2f} s ({', '.join(f'{r.seconds:.2f}' for r in runs)})")
            parts += [f"    {execution.format()}" for execution in runs[-1].profile]
        return "\n".join(parts)


def main() -> None:
    """Refresh the sources again and again; the first round of all models is for getting warm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument("--layout", choices=("years", "keys"), default="years")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", default="", help="a folder in which the generated rows are kept")
    parser.add_argument("--profile", action="store_true", help="show what Spark did, execution by execution")
    given = parser.parse_args()
    queries = {q.name: q.sql for q in read_queries("tpch") if set(q.tables) & set(REFRESHED["tpch"])}
    names = given.only.split(",") if given.only else list(queries)
    models = [Model(name) for name in names]
    texts = {f"{name}{twin}": queries[name] for name in names for twin in ("", "_again")}
    lab = Lab(texts, profiles=given.profile)
    try:
        make_sources(lab, given.scale, Path(given.rows) if given.rows else lab.folder / "rows", given.layout)
        lab.build()
        for round_number in range(given.rounds + 1):
            refresh_sources(lab, given.share)
            for place, model in enumerate(models):
                model.measure(lab, rebuild_first=bool((place + round_number) % 2))
                said = model.explain() if given.profile else model.format(given.scale)
                print(said, file=sys.stderr, flush=True)
                if not round_number:
                    model.refreshes.clear()
                    model.rebuilds.clear()
    finally:
        lab.close()
    print("| date | SF | model | run | refresh | executions | rebuild | executions | rebuild / refresh |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(model.format(given.scale) for model in models))
    mean = math.exp(sum(math.log(model.ratio) for model in models) / len(models))
    print(f"\nGeometric mean of rebuild / refresh: {mean:.2f}, the least {min(m.ratio for m in models):.2f}.")


if __name__ == "__main__":
    main()
