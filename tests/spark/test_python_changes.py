"""Models that follow changes by a function of their own: random changes, and the rows that all rows would give."""

from __future__ import annotations

import random
from collections import Counter

from support.sandbox import Sandbox

MODELS = """
from sqb import model


@model(kind="table")
def lines(ctx):
    return ctx.changes("raw.orders").selectExpr("id", "amount * 2 AS twice", "_change")


@model(kind="merge", unique_key="id")
def by_id(ctx):
    assert ctx.is_full == (ctx.vars["full"] == "yes")
    return ctx.changes("raw.orders").select("id", "amount", "_change")


@model(kind="append")
def log(ctx):
    return ctx.changes("raw.orders").where("_change > 0").drop("_change")
"""
Row = tuple[int, int]


def test_changes_lead_where_all_rows_lead(sandbox: Sandbox) -> None:
    chance = random.Random(7)
    sandbox.write("python/models/m/all.py", MODELS)
    sandbox.sql("CREATE NAMESPACE raw")
    sandbox.sql("CREATE TABLE raw.orders (id INT, amount INT) USING iceberg")
    rows: dict[int, int] = {number: chance.randint(0, 3) for number in range(6)}
    sandbox.sql(f"INSERT INTO raw.orders VALUES {values(rows)}")
    logged = Counter(rows.items())
    assert sandbox.build(vars={"full": "yes"}).ok
    for _ in range(2):
        before = Counter(rows.items())
        rows = changed(rows, chance)
        sandbox.sql(f"INSERT OVERWRITE raw.orders VALUES {values(rows)}")
        logged += Counter(rows.items()) - before
        result = sandbox.build(vars={"full": "no"})
        assert result.ok, [str(n.error) for n in result.nodes]
        assert {n.run_type for n in result.nodes if n.status == "ok"} <= {"incremental"}
        assert Counter(sandbox.rows("m.by_id")) == Counter(rows.items())
        assert Counter(sandbox.rows("m.lines")) == Counter((i, 2 * amount) for i, amount in rows.items())
        assert Counter(sandbox.rows("m.log")) == logged


def changed(rows: dict[int, int], chance: random.Random) -> dict[int, int]:
    """Some rows go, some come, some have other amounts."""
    remaining = {i: amount if chance.random() < 0.5 else chance.randint(0, 3) for i, amount in rows.items()}
    for number in chance.sample(sorted(remaining), 2):
        del remaining[number]
    return remaining | {max(rows) + 1 + i: chance.randint(0, 3) for i in range(chance.randint(1, 3))}


def values(rows: dict[int, int]) -> str:
    return ", ".join(f"({i}, {amount})" for i, amount in rows.items())
