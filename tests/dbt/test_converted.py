"""A dbt project and what `sqb init --from-dbt` makes of it, built on the same data: the same rows, and again later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.dbt_engine import running_engine, share_engine
from support.dbt_shop import Shop

TABLES = ("raw_customers", "raw_orders", "orders", "customers", "best_customers", "order_log", "history_of_orders")
HISTORY = ("order_id", "status")


def payments(*rows: tuple[int, int, str, int]) -> pa.Table:
    names = ("id", "order_id", "payment_method", "amount")
    return pa.table({name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)})


FIRST = (
    (1, 1, "credit_card", 1000),
    (2, 2, "credit_card", 2000),
    (3, 3, "coupon", 100),
    (4, 4, "coupon", 2500),
    (5, 4, "bank_transfer", 1700),
    (6, 6, "gift_card", 600),
)


def rows(shop: Shop, schema: str, name: str) -> tuple[Any, list[str]]:
    """The columns of a table with their types, and its rows in an order of their own."""
    table = shop.catalog().load_table((schema, name))
    columns = [(field.name, str(field.field_type)) for field in table.schema().fields]
    return columns, sorted(map(repr, table.scan().to_arrow().to_pylist()))


def history(shop: Shop, schema: str, valid_to: str) -> list[tuple[Any, ...]]:
    """The versions of a snapshot's rows, and which of them are closed; when is another time in each."""
    arrow = shop.catalog().load_table((schema, "orders_history")).scan().to_arrow()
    return sorted((*(row[name] for name in HISTORY), row[valid_to] is None) for row in arrow.to_pylist())


@pytest.mark.timeout(1500)
def test_both_have_the_same_rows(converted_shop: Shop, tmp_path: Path) -> None:
    shop = converted_shop
    share_engine(shop, tmp_path)
    shop.overwrite("till", "raw_payments", payments(*FIRST))
    with running_engine(shop):
        build_both(shop)
        # A new order and another status: later than what the log has, and earlier.
        orders = (shop.root / "seeds/raw_orders.csv").read_text()
        orders = orders.replace("2018-01-07,shipped", "2018-01-07,completed").replace("01-01,returned", "01-01,placed")
        for folder in ("seeds", "dbt/seeds"):
            (shop.root / folder / "raw_orders.csv").write_text(orders + "7,4,2018-01-09,placed\n")
        shop.overwrite("till", "raw_payments", payments(*FIRST, (7, 7, "coupon", 1234)))
        build_both(shop)
        # The log goes by its cursor: what changed before the window stays as it was.
        assert "'status': 'returned'" in str(rows(shop, "jaffle_shop", "order_log")[1])


def build_both(shop: Shop) -> None:
    for done in (shop.dbt("build", "--json"), shop.sqb("build", "--json")):
        assert done.code == 0, done.out + done.err
    for name in TABLES:
        assert rows(shop, "jaffle_shop", name) == rows(shop, "analytics", name), name
    assert history(shop, "jaffle_shop", "valid_to") == history(shop, "analytics", "dbt_valid_to")
