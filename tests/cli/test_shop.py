"""The example project from the first build to a failing one, on real Spark. The tests go on from each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli.conftest import SQB, Done, Folder, can, quiet, run_sqb
from sqb.spark.session.jars import PACKAGES, find_cached_jars

NODES = {
    "seeds.customers",
    "seeds.order_lines",
    "seeds.orders",
    "seeds.payments",
    "seeds.products",
    "staging.stg_customers",
    "staging.stg_order_lines",
    "staging.stg_orders",
    "staging.stg_payments",
    "staging.stg_products",
    "marts.customer_revenue",
    "marts.daily_revenue",
    "marts.fct_orders",
    "marts.open_invoices",
    "marts.product_sales",
}


@dataclass(frozen=True)
class Shop:
    """The example project, and what its first build said."""

    folder: Folder
    first: Done
    log: Path


def logs(folder: Folder) -> list[Path]:
    return sorted((folder.root / ".sqb" / "logs").glob("*.log"))


def without_network() -> tuple[str, ...]:
    """What to put before a command so that it has no network; nothing where jars must be fetched or it is forbidden."""
    if find_cached_jars(PACKAGES, {}) is None or not can("unshare", "-n", "true"):
        return ()
    # Spark and its Python talk to each other through the loopback device, which a new namespace has switched off.
    return ("unshare", "-n", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$0" "$@"')


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    parent = tmp_path_factory.mktemp("a folder with spaces")
    assert run_sqb("init", "my shop", cwd=parent).code == 0
    folder = Folder(parent / "my shop")
    first = folder.sqb("build")
    (log,) = logs(folder)
    return Shop(folder, first, log)


@dataclass
class Watch:
    """Whether a Java process was seen below this one."""

    seen: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def watching_for_java() -> Iterator[Watch]:
    import psutil

    watch = Watch()

    me = psutil.Process()
    # Other tests of the run may have a Spark of their own.
    there = {child.pid for child in me.children(recursive=True)}

    def look() -> None:
        while not watch.stop.is_set():
            for child in me.children(recursive=True):
                if child.pid in there:
                    continue
                try:
                    watch.seen = watch.seen or "java" in child.name()
                except psutil.Error:
                    continue
            time.sleep(0.005)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop.set()
        thread.join()


def test_the_first_build(shop: Shop) -> None:
    done = shop.first
    assert (done.code, done.err) == (0, "")
    assert quiet(done)
    lines = [line for line in done.lines if line.startswith("[OK]")]
    assert {line.split()[1] for line in lines} == NODES
    assert any(line.startswith("[OK] marts.fct_orders (table, backfill, 320 rows, ") for line in lines)
    assert any(line.startswith("[OK] marts.open_invoices (view, backfill, ") for line in lines)
    assert done.lines[-1].startswith("Done: 15 ran, 0 skipped, 0 failed (3515 rows, ")
    order = [line.split()[1] for line in lines]
    assert order.index("seeds.orders") < order.index("staging.stg_orders") < order.index("marts.fct_orders")
    assert shop.log.stat().st_size > 0


def test_the_second_build_starts_no_java_and_loads_nothing(shop: Shop) -> None:
    with watching_for_java() as watch:
        done = shop.folder.sqb("build", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["summary"]["spark_started"] is False
    assert done.document["summary"]["skipped"] == 15
    assert not watch.seen
    code = "import sys; from sqb.cli import main; main.run(['build']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.folder.root, capture_output=True, text=True, check=True
    )
    heavy = {"pyspark", "py4j", "pyiceberg", "sqlglot", "pyarrow", "yaml", "rich"}
    assert {name.partition(".")[0] for name in loaded.stderr.split()} & heavy == set()
    assert "Nothing to do: everything is up to date." in loaded.stdout


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("models/staging/stg_orders.sql", "SELECT\n", "-- a comment\nselect\n\n"),
        ("models/staging/stg_payments.sql", "lower(method) AS method", "LOWER( `method` ) as `method`"),
        ("models/marts/fct_orders.sql", "description 'One row per order", "description 'Exactly one row per order"),
        ("models/marts/product_sales.sql", "-- @tags: [marts]", "-- @tags: [marts, new]"),
    ],
)
def test_edits_that_change_nothing_run_nothing(shop: Shop, file: str, old: str, new: str) -> None:
    text = (shop.folder.root / file).read_text()
    assert old in text
    with shop.folder.with_files({file: text.replace(old, new, 1)}):
        assert shop.folder.here("plan").lines[-1] == "Nothing to do: 15 unchanged (target dev)"


def test_an_edited_model_and_what_reads_it_are_planned(shop: Shop) -> None:
    file = "models/staging/stg_payments.sql"
    text = (shop.folder.root / file).read_text()
    with shop.folder.with_files({file: text.replace("lower(method)", "upper(method)")}):
        plan = shop.folder.here("plan", "-v")
    run = [line for line in plan.lines if line.startswith("run ")]
    assert [line.split()[1] for line in run] == [
        "staging.stg_payments",
        "marts.fct_orders",
        "marts.customer_revenue",
        "marts.daily_revenue",
        "marts.open_invoices",
    ]
    assert "Query changed" in run[0] and "staging.stg_payments runs; if its output changes" in run[1]
    assert [line.strip() for line in plan.lines if line.strip().startswith(("+", "-"))] == [
        "-  lower(method) AS method,",
        "+  upper(method) AS method,",
    ]


def test_only_what_is_affected_runs_and_without_a_network(shop: Shop) -> None:
    """The payments' method is in no mart: they are built again, and nothing below them is."""
    file = shop.folder.root / "models/staging/stg_payments.sql"
    file.write_text(file.read_text().replace("lower(method)", "upper(method)"))
    done = shop.folder.sqb("build", "--json", before=without_network())
    assert done.code == 0, done.err
    assert done.document["summary"]["spark_started"] is True
    nodes = {n["name"]: n for n in done.document["nodes"]}
    ran = {name for name, n in nodes.items() if n["status"] == "ok"}
    assert ran == {"staging.stg_payments"}
    assert nodes["staging.stg_payments"]["rows"] == 307
    assert nodes["marts.fct_orders"]["status"] == "skipped", "it reads other columns"
    assert nodes["marts.customer_revenue"]["detail"] == "upstream output identical"
    assert nodes["marts.customer_revenue"]["status"] == "skipped"
    assert quiet(done) and "[OK] staging.stg_payments (table, backfill, 307 rows, " in done.err
    assert shop.folder.here("plan").lines[-1] == "Nothing to do: 15 unchanged (target dev)"


def test_a_model_that_fails(shop: Shop) -> None:
    """What reads it is skipped, the rest goes on, and the error is at its place in the file."""
    root = shop.folder.root
    before = shop.folder.lake()
    files = {
        "models/checks/broken.sql": "-- @kind: table\nSELECT\n  order_id,\n  CAST('x' AS INT) AS n\nFROM stg_orders\n",
        "models/checks/below.sql": "SELECT * FROM broken",
        "models/checks/fine.sql": "SELECT count(*) AS n FROM stg_orders",
        "models/checks/divided.sql": "SELECT order_id / 0 AS x FROM stg_orders",
    }
    with shop.folder.with_files(files):
        done = shop.folder.sqb("build", cwd=root / "models")
        again = shop.folder.here("plan", "--json").document
        rows = shop.folder.here("history", "--json").document["runs"][0]["nodes"]
    assert done.code == 1 and quiet(done)
    assert "[SKIP] checks.below (upstream checks.broken failed)" in done.lines
    assert any(line.startswith("[OK] checks.fine (table, backfill, 1 row, ") for line in done.lines)
    assert done.lines[-1].startswith("Done: 1 ran, 15 skipped, 2 failed, 1 blocked (1 row, ")
    assert "error[SQB-B001]: models/checks/broken.sql:4:3: " in done.err
    assert "  4 |   CAST('x' AS INT) AS n\n    |   ^^^^^^^^^^^^^^^^\n" in done.err
    assert "error[SQB-B001]: models/checks/divided.sql:1:8: " in done.err
    newest = logs(shop.folder)[-1]
    assert done.err.rstrip().endswith(f"Spark's log of this run: ../.sqb/logs/{newest.name}")
    assert {n["name"] for n in again["nodes"] if n["action"] == "run"} == {
        "checks.broken",
        "checks.below",
        "checks.divided",
    }
    assert {n["name"]: n["status"] for n in rows} == {
        "checks.broken": "failed",
        "checks.divided": "failed",
        "checks.fine": "ok",
    }
    after = shop.folder.lake()
    assert {k: v for k, v in after.items() if "/checks/" not in k and k.startswith("lake/")} == {
        k: v for k, v in before.items() if k.startswith("lake/")
    }
    assert not [k for k in after if "/broken/" in k or "/divided/" in k or "/below/" in k]


def test_a_query_by_the_names_of_models(shop: Shop, sqb_here: Callable[..., Done]) -> None:
    sql = "SELECT method, count(*) AS payments FROM stg_payments GROUP BY method ORDER BY method"
    done = sqb_here(shop.folder, "query", sql)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0].split() == ["method", "payments"]
    assert [line.split()[0] for line in done.lines[2:-1]] == sorted(line.split()[0] for line in done.lines[2:-1])
    assert done.lines[-1].startswith(f"({len(done.lines) - 3} rows, ")
    assert quiet(done)


def test_a_query_as_json_and_one_that_fails(shop: Shop, sqb_here: Callable[..., Done]) -> None:
    sql = "SELECT count(*) AS n, max(p.paid_on) AS d, NULL AS z FROM staging.stg_payments p JOIN seeds.products"
    done = sqb_here(shop.folder, "query", "--json", sql)
    assert done.code == 0 and done.document["columns"] == ["n", "d", "z"]
    assert done.document["rows"][0]["n"] == 307 * 30 and done.document["rows"][0]["z"] is None
    assert quiet(done)
    failing = sqb_here(shop.folder, "query", "SELECT nothing_like_it FROM stg_payments")
    assert failing.code == 2 and failing.out == "" and quiet(failing)
    assert failing.err.startswith('error[SQB-S006]: unknown column "nothing_like_it"\n')
    asked = sqb_here(shop.folder, "query", "SELECT raise_error('only Spark tells')")
    assert asked.code == 1 and asked.out == "" and quiet(asked)
    assert asked.err.startswith("error[SQB-B001]: ") and "only Spark tells" in asked.err


def test_a_query_that_is_none(shop: Shop) -> None:
    for sql in ("", "/* nothing */"):
        done = shop.folder.here("query", sql)
        assert done.code == 2 and done.err.startswith("error[SQB-S004]: there is no query")
    assert shop.folder.here("query", "SELECT 1; SELECT 2").err.startswith("error[SQB-S004]: a second statement")


def test_the_project_folder_holds_nothing_but_what_belongs_there(shop: Shop) -> None:
    names = {p.name for p in shop.folder.root.iterdir()}
    assert names == {
        ".gitignore",
        ".sqb",
        "README.md",
        "lake",
        "macros",
        "models",
        "seeds",
        "sqlbuild_project.toml",
        "tests",
    }
    assert not list(shop.folder.root.rglob("__pycache__"))
    assert os.access(SQB, os.X_OK)
