"""A dbt project on Spark and Iceberg with the real dbt: seeds, views, tables, ephemeral, incremental, snapshot, tests.

Each start of dbt takes long, so this is one story. Its first build is on a Spark that dbt starts, and what comes after
the first build on the engine: starting Spark once more for each command would show nothing new.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from support.dbt_engine import running_engine, share_engine
from support.dbt_shop import Done, Shop

CURRENT = ("skip", "no change")
MARTS = "dbt/models/marts"
NO_JAVA = {"JAVA_HOME": "/nonexistent"}


def payments(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "paid": [True] * len(ids)})


def rows(shop: Shop, name: str) -> list[tuple[object, ...]]:
    """The rows of a table of dbt's, in order."""
    arrow = shop.catalog().load_table(("analytics", name)).scan().to_arrow()
    return sorted(tuple(row.values()) for row in arrow.to_pylist())


def snapshots(shop: Shop, *names: str) -> dict[str, int]:
    tables = {name: shop.catalog().load_table(("analytics", name)) for name in names}
    return {name: table.current_snapshot().snapshot_id for name, table in tables.items()}


def ran(done: Done) -> set[str]:
    return {name for name, status in done.statuses.items() if status == "ok"}


@pytest.mark.timeout(1500)
def test_a_dbt_project_from_its_first_build_on(real_shop: Shop, tmp_path: Path) -> None:
    shop = real_shop
    share_engine(shop, tmp_path, java=True)
    shop.overwrite("raw", "payments", payments(1, 2))
    before = shop.dbt_files()
    first_build(shop)
    nothing_to_do(shop)
    what_would_run(shop)
    assert shop.dbt_files() == before
    with running_engine(shop):
        edits_and_failures(shop)
        the_rest_is_done(shop)
        a_macro_and_a_seed(shop)
        everything_anew(shop)


def first_build(shop: Shop) -> None:
    done = shop.dbt("build", "--json")
    assert done.code == 0, done.out + done.err
    assert "dbt starts a Spark of its own: no engine runs" in done.err
    assert shop.verbs == ["ls", "build"]
    assert set(done.statuses.values()) == {"ok"}
    assert {"seed.shop.raw_orders", "snapshot.shop.customer_totals", "totals", "seeds.countries"} <= ran(done)
    # What dbt says streams through, where programs do not look for the document.
    assert "Completed successfully" in done.err
    assert rows(shop, "totals") == [("ada", 1375), ("grace", 2000)]
    assert rows(shop, "countries") == [("de", "Germany"), ("fr", "France")]
    # The sqb model below dbt was built by the same command.
    assert "reports.best_customers" in ran(done)


def nothing_to_do(shop: Shop) -> None:
    shop.forget_calls()
    done = shop.sqb("dbt", "build", **NO_JAVA)
    assert (done.code, shop.verbs) == (0, [])
    assert "  skipped: all planned dbt models are current" in done.out.splitlines()
    assert "      model.shop.totals         no change" in done.out.splitlines()
    assert "Nothing to do: everything is up to date." in done.out


def what_would_run(shop: Shop) -> None:
    """Everything that a plan tells without asking dbt, or by asking it what is selected."""
    shop.forget_calls()
    everything = shop.plan("--full-refresh")
    assert everything["totals"] == everything["order_log"] == ("run", "full refresh")
    shop.overwrite("raw", "payments", payments(1, 2, 3))
    plan = shop.plan()
    assert plan["stg_payments"] == ("run", "source_freshness_changed")
    assert plan["paid"] == ("run", "upstream_changed")
    assert plan["totals"] == plan["order_log"] == CURRENT
    shop.write({"seeds/countries.csv": "code,name\nde,Germany\nfr,France\nit,Italy\n"})
    assert shop.plan()["countries"] == ("run", "source_freshness_changed")
    shop.catalog().drop_table(("analytics", "countries"))
    assert shop.plan()["countries"] == ("run", "relation missing")
    assert shop.verbs == []
    assert set(shop.plan("--select", "totals")) >= {"totals", "test.shop.totals_are_positive"}
    assert shop.verbs == ["ls"]


def edits_and_failures(shop: Shop) -> None:
    """A macro that compiles to the same, an edited model with the same rows, one that fails, and a test that does."""
    macro = shop.root / "dbt/macros/cents.sql"
    macro.write_text("{# hundredths #}" + macro.read_text().replace("cast(", "CAST( "))
    assert shop.plan()["totals"] == CURRENT
    totals = shop.root / MARTS / "totals.sql"
    totals.write_text(totals.read_text().replace("sum(cents)", "sum(cents) + 0"))
    paid = shop.root / MARTS / "paid.sql"
    good = paid.read_text()
    paid.write_text(good.replace("p.paid", "p.no_such_column"))
    test = shop.root / "dbt/tests/totals_are_positive.sql"
    test.write_text(test.read_text().replace("<= 0", "> 0"))
    log = snapshots(shop, "order_log", "raw_orders")
    shop.forget_calls()
    done = shop.dbt("build", "--json")
    assert done.code == 1, done.err
    assert done.statuses["paid"] == "failed"
    assert done.statuses["test.shop.totals_are_positive"] == "failed"
    # dbt skips what reads a model whose test failed.
    assert done.statuses["snapshot.shop.customer_totals"] == "skipped"
    assert {"totals", "countries", "stg_payments", "seeds.countries"} <= ran(done)
    assert "order_log" not in ran(done)
    assert snapshots(shop, "order_log", "raw_orders") == log
    # The sqb model below must not be built on what failed its test.
    assert done.statuses["reports.best_customers"] == "blocked"
    left = shop.plan()
    assert (
        left["paid"][0] == left["test.shop.totals_are_positive"][0] == left["snapshot.shop.customer_totals"][0] == "run"
    )
    assert left["totals"] == left["countries"] == CURRENT
    paid.write_text(good)
    test.write_text(test.read_text().replace("> 0", "<= 0"))


def the_rest_is_done(shop: Shop) -> None:
    """What failed and what stood behind it, and nothing else."""
    done = shop.dbt("build", "--json")
    assert done.code == 0, done.err
    assert ran(done) == {
        "paid",
        "test.shop.unique_paid_id.5c3609946e",
        "test.shop.totals_are_positive",
        "snapshot.shop.customer_totals",
    }
    assert [r[0] for r in rows(shop, "paid")] == [1, 2, 3]
    # dbt had built the table above it anew, with the rows that it had before.
    assert done.statuses["reports.best_customers"] == "skipped"
    assert set(shop.plan().values()) <= {CURRENT, ("skip", "Normal")}


def a_macro_and_a_seed(shop: Shop) -> None:
    macro = shop.root / "dbt/macros/cents.sql"
    macro.write_text(macro.read_text().replace("* 100", "* 1000"))
    assert shop.plan()["stg_orders"] == ("run", "checksum changed")
    seed = shop.root / "dbt/seeds/raw_orders.csv"
    seed.write_text(seed.read_text() + "4,grace,0.5\n")
    done = shop.dbt("build", "--select", "raw_orders", "stg_orders", "order_log", "--json")
    assert done.code == 0, done.err
    assert {"stg_orders", "order_log", "seed.shop.raw_orders"} <= ran(done)
    # An incremental model goes on from where it was: the rows that stand are not made anew.
    assert rows(shop, "order_log") == [(1, 1050), (2, 2000), (3, 325), (4, 500)]
    left = shop.plan()
    assert left["totals"] == left["paid"] == ("run", "upstream_changed")
    assert left["order_log"] == left["countries"] == CURRENT


def everything_anew(shop: Shop) -> None:
    done = shop.dbt("build", "--full-refresh", "--json")
    assert done.code == 0, done.err
    assert rows(shop, "order_log") == [(1, 10500), (2, 20000), (3, 3250), (4, 500)]
    assert "reports.best_customers" in ran(done)
    assert set(shop.plan().values()) <= {CURRENT, ("skip", "Normal")}


@pytest.mark.timeout(1500)
def test_what_else_dbt_users_type(real_shop: Shop, tmp_path: Path) -> None:
    share_engine(real_shop, tmp_path)
    real_shop.overwrite("raw", "payments", payments(1, 2))
    with running_engine(real_shop):
        seeds_runs_and_tests(real_shop)


def seeds_runs_and_tests(shop: Shop) -> None:
    done = shop.dbt("seed", "--json")
    assert done.code == 0, done.err
    assert ran(done) == {"seed.shop.raw_orders"}
    shop.forget_calls()
    assert (shop.dbt("seed", **NO_JAVA).code, shop.verbs) == (0, [])
    empty = shop.dbt("run", "--empty", "-s", "stg_orders", "totals", "--json")
    assert empty.code == 0, empty.err
    assert rows(shop, "totals") == []
    assert shop.plan()["totals"] == ("run", "checksum changed")
    done = shop.dbt("run", "-s", "stg_orders", "totals", "--json")
    assert done.code == 0, done.err
    assert rows(shop, "totals") == [("ada", 1375), ("grace", 2000)]
    tests = shop.dbt("test", "-s", "totals", "--json")
    assert tests.code == 0, tests.err
    assert "test.shop.totals_are_positive" in ran(tests) and "totals" not in tests.statuses
    assert shop.plan("-s", "totals")["test.shop.totals_are_positive"] == CURRENT


@pytest.mark.timeout(1500)
def test_dbt_on_the_engine_and_what_another_target_has(real_shop: Shop, tmp_path: Path) -> None:
    """The dbt of this shop cannot start a Spark: whatever it does, it does on the engine."""
    shop = real_shop
    share_engine(shop, tmp_path)
    with running_engine(shop):
        done = shop.dbt("build", "-s", "raw_orders", "stg_orders", "totals", "--json")
        assert done.code == 0, done.out + done.err
        assert "a Spark of its own" not in done.err
        assert rows(shop, "totals") == [("ada", 1375), ("grace", 2000)]
        assert "reports.best_customers" in ran(done)
        read_another_target(shop, tmp_path / "state")
    assert shop.dbt("seed", "--full-refresh", "--json").err.startswith("dbt starts a Spark of its own: no engine runs")


def read_another_target(shop: Shop, state: Path) -> None:
    """`--defer` with the real dbt: the seed is only in the other target, and is read there."""
    state.mkdir()
    shutil.copy(shop.root / ".sqb/dbt/target/manifest.json", state)
    elsewhere = ("--target", "other", "-s", "stg_orders", "order_log")
    defer = (*elsewhere, "--defer", "--state", str(state))
    done = shop.dbt("run", *defer, "--json")
    assert done.code == 0, done.out + done.err
    assert ran(done) == {"stg_orders", "order_log"}
    log = shop.catalog().load_table(("elsewhere", "order_log")).scan().to_arrow()
    assert sorted(log["cents"].to_pylist()) == [325, 1050, 2000]
    assert not shop.catalog().table_exists(("elsewhere", "raw_orders"))
    assert set(shop.plan(*defer).values()) <= {CURRENT, ("skip", "Normal")}
    # It was built from tables of elsewhere, and without --defer it would not be.
    assert shop.plan(*elsewhere)["stg_orders"][0] == "run"
    seed = shop.catalog().load_table(("analytics", "raw_orders"))
    seed.append(seed.scan().to_arrow().slice(0, 1))
    assert shop.plan(*defer)["stg_orders"] == ("run", "upstream_changed")
