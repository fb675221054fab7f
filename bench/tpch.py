"""TPC-H after a refresh of 0.1 %: sqb's refresh of each query against its own rebuild, in one warm session.

New orders with their lineitems come and as many old ones leave, as in the benchmark's own refresh functions. Each query
is a model without its final ORDER BY and LIMIT; every result is compared with a full one.

    python bench/tpch.py [--scale 0.1] [--share 0.001] [--only q01,q03]
"""

from __future__ import annotations

import argparse
import datetime
import math
import sys
from pathlib import Path

from side_by_side import Lab

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

import tpc_env  # noqa: E402

from support.tpc import REFRESHED, read_queries, read_schemas  # noqa: E402


def make_sources(lab: Lab, scale: str) -> None:
    """Fill the tables; orders and their lineitems are partitioned by the year of their date."""
    rows = lab.folder / "rows"
    tpc_env.generate("rows", "tpch", scale, str(rows))
    layout = {"orders": "PARTITIONED BY (years(o_orderdate))", "lineitem": "PARTITIONED BY (years(l_shipdate))"}
    for table, columns in read_schemas("tpch").items():
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        lab.sql(
            f"CREATE TABLE lake.raw.{table} ({listed}) {layout.get(table, '')}"
            " TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
            f"INSERT INTO lake.raw.{table} SELECT * FROM parquet.`{rows / table}.parquet`",
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


def measure_query(lab: Lab, name: str, scale: str) -> tuple[str, float]:
    """Refresh a model, check it and rebuild it; its line of the table, and rebuild / refresh."""
    refresh = lab.build(name)
    lab.check(name)
    rebuild = lab.build(name, full=True)
    ratio = rebuild.seconds / refresh.seconds
    line = (
        f"| {datetime.date.today()} | {scale} | {name} | {refresh.run_type} | {refresh.seconds:.2f} s"
        f" | {refresh.executions} | {rebuild.seconds:.2f} s | {rebuild.executions} | {ratio:.2f}x |"
    )
    return line, ratio


def main() -> None:
    """Refresh the sources twice, the first time to get warm, and measure the models that read them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    chosen = {q.name: q.sql for q in read_queries("tpch") if set(q.tables) & set(REFRESHED["tpch"])}
    if given.only:
        chosen = {name: chosen[name] for name in given.only.split(",")}
    lab = Lab(chosen)
    measured: list[tuple[str, float]] = []
    try:
        make_sources(lab, given.scale)
        lab.build()
        refresh_sources(lab, given.share)
        lab.build()
        refresh_sources(lab, given.share)
        for name in chosen:
            measured.append(measure_query(lab, name, given.scale))
            print(measured[-1][0], file=sys.stderr, flush=True)
    finally:
        lab.close()
    print("| date | SF | model | run | refresh | executions | rebuild | executions | rebuild / refresh |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(line for line, _ in measured))
    mean = math.exp(sum(math.log(ratio) for _, ratio in measured) / len(measured))
    print(f"\nGeometric mean of rebuild / refresh: {mean:.2f}, the least {min(ratio for _, ratio in measured):.2f}.")


if __name__ == "__main__":
    main()
