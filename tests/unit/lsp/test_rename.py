"""Renaming through the project, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.lsp.rename import CannotRename, rename
from sqb.lsp.snapshot import ProjectReader
from unit.folders import write
from unit.lsp.conftest import FILES, Cursor

TOTALS, STAGING = "models/marts/totals.sql", "models/staging/stg_orders.sql"
Find = Callable[..., Cursor]


def apply(cursor: Cursor, name: str, reader: ProjectReader) -> dict[str, str]:
    done = rename(*cursor, name, reader.check)
    texts = done.apply(cursor[0])
    for old, new in done.moved:
        texts[new] = texts.pop(old, cursor[0].read_text(old))
    assert reader.check(texts, [old for old, _ in done.moved]).errors == ()
    return texts


def test_a_column_is_renamed_where_it_is_made_in_headers_and_in_readers(find: Find, reader: ProjectReader) -> None:
    texts = apply(find(TOTALS, "amount"), "gross", reader)
    assert "columns {gross: 'in euros'}" in texts[STAGING] and "not_null(gross)" in texts[STAGING]
    assert "SELECT id AS order_id, customer, amount AS gross, placed_on FROM orders" in texts[STAGING]
    assert "sum(o.gross) AS total" in texts[TOTALS]


def test_a_column_of_a_cte_that_is_in_the_result(find: Find, reader: ProjectReader) -> None:
    texts = apply(find(TOTALS, "total,", 2), "revenue", reader)
    assert texts.keys() == {TOTALS}
    assert "AS revenue, max" in texts[TOTALS] and "b.revenue, upper" in texts[TOTALS]
    assert "not_null(revenue)" in texts[TOTALS] and "b.revenue > 0" in texts[TOTALS]


def test_a_column_that_readers_hand_on_is_renamed_through_them(
    point: Callable[[str, str], Cursor], reader: ProjectReader
) -> None:
    path = "models/marts/everything.sql"
    cursor = point(path, "SELECT t.customer, t.to|tal FROM totals t")
    texts = apply(cursor, "revenue", reader)
    assert texts[path] == "SELECT t.customer, t.revenue FROM totals t"


def test_a_model_is_renamed_with_its_file(find: Find, reader: ProjectReader) -> None:
    done = rename(*find(TOTALS, "stg_orders"), "stg_sales", reader.check)
    assert done.moved == ((STAGING, "models/staging/stg_sales.sql"),)
    assert "FROM stg_sales AS o" in done.apply(find(TOTALS, "stg_orders")[0])[TOTALS]


YAML = {
    "tests/totals.yml": """\
tests:
  - name: adds_up
    model: totals
    given:
      staging.stg_orders:
        - {order_id: 1, customer: 7, amount: 2.50}
        - {order_id: 2, customer: 7, "amount": 1}
    expect: {columns: {customer: bigint, total: 'decimal(13,2)'}, rows: [[7, 3.50]]}
  - name: from_orders
    model: stg_orders
    given:
      orders:
        csv: |
          id, customer, amount
          1, 7, 2.50
    expect: [{order_id: 1, customer: 7, amount: 2.50}]
""",
    "exposures/report.yml": """\
exposures:
  - name: weekly
    type: dashboard
    depends_on: [ref('totals'), stg_orders: [order_id, amount], orders: amount]
""",
    "seeds/orders.yml": "columns:\n  - {name: amount, type: 'decimal(10,2)'}\n",
    "sources/raw.yml": "sources:\n  - {name: later, expression: SELECT 1 AS x, description: d}\n",
    "models/marts/checked.sql": "-- @audit: references(customer, staging.stg_orders.order_id)\n"
    "SELECT customer FROM totals\n",
    "models/marts/later_ones.sql": "SELECT l.x FROM later AS l\n",
}


@pytest.fixture
def find_in_all(root: Path, reader: ProjectReader) -> Find:
    write(root, {**FILES, **YAML})
    snapshot = reader.read({})
    assert snapshot.errors == ()
    return lambda path, text: (snapshot, path, snapshot.read_text(path).index(text) + 1)


def test_a_column_is_renamed_in_unit_tests_and_exposures(find_in_all: Find, reader: ProjectReader) -> None:
    texts = apply(find_in_all(TOTALS, "amount"), "gross", reader)
    assert texts["tests/totals.yml"].count("gross") == 3
    assert '"gross": 1}' in texts["tests/totals.yml"] and "id, customer, amount" in texts["tests/totals.yml"]
    assert "stg_orders: [order_id, gross], orders: amount" in texts["exposures/report.yml"]
    assert "seeds/orders.csv" not in texts


def test_a_column_of_a_seed_with_its_header_and_its_settings(find_in_all: Find, reader: ProjectReader) -> None:
    texts = apply(find_in_all("seeds/orders.csv", "amount"), "gross", reader)
    assert texts["seeds/orders.csv"].startswith("id,customer,gross,placed_on\n")
    assert "{name: gross, type" in texts["seeds/orders.yml"]
    assert "orders: gross]" in texts["exposures/report.yml"] and "id, customer, gross\n" in texts["tests/totals.yml"]
    # Readers hand it on under its name: they go along.
    assert "customer, gross, placed_on FROM orders" in texts[STAGING] and "not_null(gross)" in texts[STAGING]
    assert "sum(o.gross) AS total" in texts[TOTALS]


def test_a_model_is_renamed_in_yaml_from_there(find_in_all: Find, reader: ProjectReader) -> None:
    texts = apply(find_in_all("tests/totals.yml", "staging.stg_orders"), "stg_sales", reader)
    assert "staging.stg_sales:" in texts["tests/totals.yml"] and "model: stg_sales" in texts["tests/totals.yml"]
    assert "stg_sales: [order_id, amount]" in texts["exposures/report.yml"]
    assert STAGING not in texts and "models/staging/stg_sales.sql" in texts


def test_checks_of_other_models_go_along(find_in_all: Find, reader: ProjectReader) -> None:
    checked = "models/marts/checked.sql"
    texts = apply(find_in_all(STAGING, "order_id"), "order_no", reader)
    assert "references(customer, staging.stg_orders.order_no)" in texts[checked]
    texts = apply(find_in_all(TOTALS, "stg_orders"), "stg_sales", reader)
    assert "references(customer, staging.stg_sales.order_id)" in texts[checked]


def test_a_seed_is_renamed_with_both_of_its_files(find_in_all: Find, reader: ProjectReader) -> None:
    texts = apply(find_in_all(STAGING, "orders\n"), "sales", reader)
    assert {"seeds/sales.csv", "seeds/sales.yml"} <= texts.keys()
    assert "FROM sales" in texts[STAGING] and "sales: amount]" in texts["exposures/report.yml"]
    assert "      sales:\n" in texts["tests/totals.yml"]


def test_a_source_is_renamed_where_it_is_declared(find_in_all: Find, reader: ProjectReader) -> None:
    texts = apply(find_in_all("models/marts/later_ones.sql", "later"), "soon", reader)
    assert "{name: soon, expression" in texts["sources/raw.yml"]
    assert texts["models/marts/later_ones.sql"] == "SELECT l.x FROM soon AS l\n"
    with pytest.raises(CannotRename, match="not made by a query of this project"):
        rename(*find_in_all("models/marts/later_ones.sql", "x"), "y", reader.check)


@pytest.mark.parametrize(
    ("path", "text", "name", "why"),
    [
        (TOTALS, "amount", "customer", "has a column customer already"),
        (TOTALS, "stg_orders", "stg orders", "letters, digits and underscores"),
        (TOTALS, "upper", "lower", "only tables, columns"),
    ],
)
def test_refused(find: Find, reader: ProjectReader, path: str, text: str, name: str, why: str) -> None:
    with pytest.raises(CannotRename, match=why):
        rename(*find(path, text), name, reader.check)
