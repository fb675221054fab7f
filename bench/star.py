"""A star under small changes: sqb's refresh, sqb's rebuild and the best by hand, side by side in one warm session.

A fact partitioned by day and two dimensions, six models, and changes in the newest 1 % of days: rows inserted, updated,
deleted; then updates spread over the whole table. By hand the signed sums of the changed days are merged into the
result, or, for the enrichment, the changed days are written again. Every result is compared with a full one.

    python bench/star.py [--rows 1000000] [--changed 5000] [--only by_attributes,totals] [--scenarios inserts,deletes]
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable

from side_by_side import Lab, Measured

DAYS = 200
FIRST = datetime.date(2026, 1, 1)
NEWEST = FIRST + datetime.timedelta(days=DAYS - DAYS // 100)
CUSTOMERS, PRODUCTS = 50_000, 1_000

MODELS = {
    "by_attributes": """
        SELECT c.region, p.category, count(*) AS n, sum(f.quantity) AS quantity, sum(f.amount) AS amount
        FROM raw.fact f JOIN raw.customer c ON f.customer_id = c.id JOIN raw.product p ON f.product_id = p.id
        GROUP BY c.region, p.category""",
    "totals": """
        SELECT count(*) AS n, sum(f.quantity) AS quantity, sum(f.amount) AS amount FROM raw.fact f""",
    "customer_summary": """
        SELECT c.id, c.region, count(f.id) AS n, sum(f.amount) AS amount, max(f.day) AS last_day
        FROM raw.customer c LEFT JOIN raw.fact f ON f.customer_id = c.id
        GROUP BY c.id, c.region""",
    "enriched": """
        SELECT f.id, f.day, f.quantity, f.amount, c.region, p.category
        FROM raw.fact f LEFT JOIN raw.customer c ON f.customer_id = c.id
        LEFT JOIN raw.product p ON f.product_id = p.id""",
    "customers_by_month": """
        SELECT trunc(f.day, 'MM') AS month, count(DISTINCT f.customer_id) AS customers
        FROM raw.fact f GROUP BY trunc(f.day, 'MM')""",
    "top_products": """
        SELECT category, product_id, amount, place FROM (
            SELECT s.category, s.product_id, s.amount,
                row_number() OVER (PARTITION BY s.category ORDER BY s.amount DESC, s.product_id) AS place
            FROM (SELECT p.category, p.id AS product_id, sum(f.amount) AS amount
                FROM raw.fact f JOIN raw.product p ON f.product_id = p.id GROUP BY p.category, p.id) s
        ) WHERE place <= 10""",
}
HEADERS = {"enriched": "-- @partitioned_by: day\n"}
# The groups of the additive models; signed sums merged by hand.
ADDITIVE = {"by_attributes": ("region", "category"), "totals": ()}
_SUMS = ("n", "quantity", "amount")


def make_sources(lab: Lab, rows: int) -> None:
    """Make the fact and its dimensions."""
    facts = select_facts(f"range({rows})", f"CAST(id * {DAYS} DIV {rows} AS INT)")
    lab.sql(
        f"CREATE TABLE lake.raw.customer AS SELECT id, concat('region ', id % 25) AS region FROM range({CUSTOMERS})",
        f"CREATE TABLE lake.raw.product AS SELECT id, concat('category ', id % 20) AS category FROM range({PRODUCTS})",
        "CREATE TABLE lake.raw.fact (id BIGINT, day DATE, customer_id BIGINT, product_id BIGINT, quantity INT,"
        " amount DECIMAL(12,2)) PARTITIONED BY (day)",
        f"INSERT INTO lake.raw.fact {facts} ORDER BY day",
    )


def select_facts(source: str, day: str) -> str:
    """Facts made of numbers: a day by its number, and values that look scattered."""
    return (
        f"SELECT id, date_add(DATE '{FIRST}', {day}) AS day, id * 7919 % {CUSTOMERS} AS customer_id,"
        f" id * 104729 % {PRODUCTS} AS product_id, CAST(id * 31 % 10 + 1 AS INT) AS quantity,"
        f" CAST(id * 17 % 10000 / 100 AS DECIMAL(12,2)) AS amount FROM {source}"
    )


def insert(lab: Lab, rows: int, changed: int) -> None:
    """New facts in the newest days."""
    start = lab.spark.sql("SELECT max(id) + 1 FROM lake.raw.fact").collect()[0][0]
    newest = f"{DAYS - DAYS // 100} + CAST(id % {DAYS // 100} AS INT)"
    lab.sql(f"INSERT INTO lake.raw.fact {select_facts(f'range({start}, {start + changed})', newest)}")


def update(lab: Lab, rows: int, changed: int) -> None:
    """Another amount and quantity for facts of the newest days."""
    lab.sql(
        f"UPDATE lake.raw.fact SET amount = amount + 1, quantity = quantity + 1"
        f" WHERE day >= DATE '{NEWEST}' AND id >= {_nth_newest(lab, changed)}"
    )


def delete(lab: Lab, rows: int, changed: int) -> None:
    """Facts of the newest days leave."""
    lab.sql(f"DELETE FROM lake.raw.fact WHERE day >= DATE '{NEWEST}' AND id >= {_nth_newest(lab, changed)}")


def spread(lab: Lab, rows: int, changed: int) -> None:
    """As many updates in all days."""
    lab.sql(f"UPDATE lake.raw.fact SET amount = amount + 1 WHERE id % {max(1, rows // changed)} = 0")


def _nth_newest(lab: Lab, count: int) -> int:
    newest = f"SELECT id FROM lake.raw.fact WHERE day >= DATE '{NEWEST}' ORDER BY id DESC LIMIT {count}"
    return int(lab.spark.sql(f"SELECT min(id) FROM ({newest})").collect()[0][0])


SCENARIOS: dict[str, Callable[[Lab, int, int], None]] = {
    "inserts": insert,
    "updates": update,
    "deletes": delete,
    "spread": spread,
}


def refresh_by_hand(lab: Lab, name: str, scenario: str, old: int, new: int) -> Measured | None:
    """The best that somebody could write who knows which days changed; None where that is a rebuild."""
    if scenario == "spread":
        return None
    if name == "enriched":
        days = lab.query(name) + f" WHERE f.day >= DATE '{NEWEST}'"
        return lab.measure(lambda: lab.sql(f"INSERT OVERWRITE lake.m.hand_enriched {days}"))
    if name not in ADDITIVE:
        return None
    lab.spark.sql(select_signed(scenario, old, new)).createOrReplaceTempView("signed")
    return lab.measure(lambda: lab.sql(merge_sums(name)))


def select_signed(scenario: str, old: int, new: int) -> str:
    """The changed days as they are and, with minus, as they were; of rows that only came, just those."""
    versions = f"SELECT *, {{}} AS sign FROM lake.raw.fact VERSION AS OF {{}} WHERE day >= DATE '{NEWEST}'"
    if scenario == "inserts":
        last = f"(SELECT max(id) FROM lake.raw.fact VERSION AS OF {old} WHERE day >= DATE '{NEWEST}')"
        return f"{versions.format(1, new)} AND id > {last}"
    return f"{versions.format(1, new)} UNION ALL {versions.format(-1, old)}"


def merge_sums(name: str) -> str:
    """The signed sums of the changes, added to the result."""
    groups = ADDITIVE[name]
    joins = "JOIN lake.raw.customer c ON f.customer_id = c.id JOIN lake.raw.product p ON f.product_id = p.id"
    keys = "".join(f"{g}, " for g in groups)
    sums = "sum(sign) AS n, sum(sign * quantity) AS quantity, sum(IF(sign < 0, -amount, amount)) AS amount"
    change = f"SELECT {keys}{sums} FROM signed f {joins if groups else ''} {f'GROUP BY {keys[:-2]}' if groups else ''}"
    on = " AND ".join(f"t.{g} <=> d.{g}" for g in groups) or "true"
    added = ", ".join(f"t.{c} = t.{c} + d.{c}" for c in _SUMS)
    columns = ", ".join((*groups, *_SUMS))
    return (
        f"MERGE INTO lake.m.hand_{name} t USING ({change}) d ON {on} WHEN MATCHED AND t.n + d.n = 0 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {added} WHEN NOT MATCHED THEN INSERT ({columns})"
        f" VALUES ({', '.join(f'd.{c}' for c in (*groups, *_SUMS))})"
    )


def make_tables_by_hand(lab: Lab, names: list[str]) -> None:
    """The tables that are refreshed by hand, from what sqb built."""
    lab.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
    for name in names:
        layout = "PARTITIONED BY (day) " if name == "enriched" else ""
        if name in ADDITIVE or name == "enriched":
            lab.sql(f"CREATE OR REPLACE TABLE lake.m.hand_{name} {layout}AS SELECT * FROM lake.m.{name}")


def run_scenario(lab: Lab, scenario: str, names: list[str], rows: int, changed: int) -> list[str]:
    """One change, followed by sqb and by hand, then rebuilt; a line of the table for each model."""
    make_tables_by_hand(lab, names)
    old = lab.snapshot("lake.raw.fact")
    SCENARIOS[scenario](lab, rows, changed)
    new = lab.snapshot("lake.raw.fact")
    lines = []
    for name in names:
        by_hand = refresh_by_hand(lab, name, scenario, old, new)
        refresh = lab.build(name)
        lab.check(name)
        if by_hand is not None:
            lab.check(name, table=f"lake.m.hand_{name}")
        lines.append(format_line(scenario, name, rows, refresh, lab.build(name, full=True), by_hand))
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def format_line(
    scenario: str, name: str, rows: int, refresh: Measured, rebuild: Measured, by_hand: Measured | None
) -> str:
    """A line of the table."""
    hand = f"{by_hand.seconds:.2f} s | {by_hand.executions}" if by_hand else " | "
    ratio = f"{refresh.seconds / by_hand.seconds:.2f}x" if by_hand else ""
    return (
        f"| {datetime.date.today()} | {rows:,} | {scenario} | {name} | {refresh.run_type} | {refresh.seconds:.2f} s"
        f" | {refresh.executions} | {rebuild.seconds:.2f} s | {rebuild.executions} | {hand}"
        f" | {rebuild.seconds / refresh.seconds:.2f}x | {ratio} |"
    )


def main() -> None:
    """Run the scenarios in one session, warm from the first model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=5_000)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    given = parser.parse_args()
    names, scenarios = given.only.split(","), given.scenarios.split(",")
    lab = Lab({name: MODELS[name] for name in names}, HEADERS)
    lines: list[str] = []
    try:
        make_sources(lab, given.rows)
        lab.build()
        # The first refresh, rebuild and merge of a session take longer than any other.
        run_scenario(lab, scenarios[0], names[:1], given.rows, given.changed)
        lab.build()
        print("warm", file=sys.stderr, flush=True)
        for scenario in scenarios:
            lines += run_scenario(lab, scenario, names, given.rows, given.changed)
    finally:
        lab.close()
    print(
        "| date | facts | change | model | run | refresh | executions | rebuild | executions | by hand | executions"
        " | rebuild / refresh | refresh / by hand |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
