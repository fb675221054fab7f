"""What is offered at the cursor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqb.lsp.completion import Completion, complete
from unit.lsp.conftest import Cursor

TOTALS = "models/marts/totals.sql"
COLUMNS = ["order_id", "customer", "amount", "placed_on"]
Point = Callable[[str, str], Cursor]


def offer(point: Point, text: str, kind: str) -> list[Completion]:
    return [c for c in complete(*point(TOTALS, text)) if c.kind == kind]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT | FROM stg_orders",
        "SELECT o.| FROM stg_orders o",
        "SELECT amount FROM staging.stg_orders WHERE |",
        "SELECT amount FROM stg_orders WHERE cust|",
        "WITH a AS (SELECT * FROM stg_orders) SELECT | FROM a",
        "WITH a AS (SELECT o.* FROM stg_orders o), b AS (SELECT * FROM a) SELECT b.| FROM b",
        "SELECT s.| FROM (SELECT * FROM stg_orders) s",
        "SELECT count(*) FROM stg_orders AS o GROUP BY |",
        "SELECT o.customer, sum(| FROM stg_orders o",
        "SELECT 1 AS a UNION ALL SELECT | FROM stg_orders",
        "SELECT (SELECT max(|) FROM stg_orders) AS x",
    ],
)
def test_columns_of_what_is_in_scope(point: Point, text: str) -> None:
    assert [c.label for c in offer(point, text, "column")][:4] == COLUMNS


def test_columns_have_their_types(point: Point) -> None:
    offered = {c.label: c.detail for c in offer(point, "SELECT o.| FROM stg_orders o", "column")}
    assert (offered["order_id"], offered["placed_on"]) == ("bigint  o", "date  o")


def test_columns_of_ctes_are_those_of_their_lists(point: Point) -> None:
    text = "WITH a AS (SELECT customer, sum(amount) AS total, max(placed_on) last_on FROM stg_orders) SELECT a.| FROM a"
    assert [c.label for c in offer(point, text, "column")] == ["customer", "total", "last_on"]
    text = "WITH a(x, y) AS (SELECT customer, amount FROM stg_orders) SELECT a.| FROM a"
    assert [c.label for c in offer(point, text, "column")] == ["x", "y"]


def test_outer_columns_come_after_those_of_the_subquery(point: Point) -> None:
    text = "SELECT 1 FROM stg_orders o WHERE EXISTS (SELECT 1 FROM totals t WHERE |)"
    offered = {c.label: c.order for c in offer(point, text, "column")}
    assert offered["total"] < offered["amount"]


def test_tables_after_from_and_join(point: Point) -> None:
    for text in ("SELECT * FROM |", "SELECT * FROM stg_orders o JOIN |", "SELECT * FROM stg_orders, |"):
        labels = {c.label for c in offer(point, text, "table")}
        assert {"stg_orders", "totals", "orders", "events"} <= labels
    labels = [c.label for c in offer(point, "WITH mine AS (SELECT 1) SELECT * FROM |", "table")]
    assert labels[0] == "mine"


def test_a_folder_before_the_dot_narrows_tables(point: Point) -> None:
    assert [c.label for c in offer(point, "SELECT * FROM staging.|", "table")] == ["stg_orders"]


def test_functions_have_their_signatures(point: Point) -> None:
    offered = {c.label: c for c in offer(point, "SELECT | FROM stg_orders", "function")}
    assert offered["date_add"].detail == "date_add(start_date, num_days) → date"
    assert offered["date_add"].text.startswith("Returns the date that is")


def test_macros_and_variables(point: Point) -> None:
    assert [c.label for c in offer(point, "SELECT @| FROM stg_orders", "macro")] == ["@euros"]
    assert [c.label for c in offer(point, "SELECT @eu| FROM stg_orders", "macro")] == ["@euros"]
    assert "@@days" in [c.label for c in offer(point, "SELECT @@| FROM stg_orders", "variable")]


@pytest.mark.parametrize("text", ["-- @|\nSELECT 1 AS a", "-- @ki|", "MODEL (|", "MODEL (kind table, |\n);\nSELECT 1"])
def test_keys_of_headers(point: Point, text: str) -> None:
    assert {"kind", "unique_key", "tags"} <= {c.label for c in offer(point, text, "key")}


@pytest.mark.parametrize(
    "text", ["-- @kind: |\nSELECT 1 AS a", "MODEL (kind |", "MODEL (tags [a], kind me|\n);\nSELECT 1"]
)
def test_values_of_keys(point: Point, text: str) -> None:
    assert {"table", "merge", "view"} <= {c.label for c in offer(point, text, "value")}


def test_checks_and_the_columns_that_they_take(point: Point) -> None:
    assert "not_null" in {c.label for c in offer(point, "-- @constraint: |\nSELECT 1 AS a", "check")}
    assert "row_count_delta" not in {c.label for c in offer(point, "-- @constraint: |\nSELECT 1 AS a", "check")}
    # The text is not whole: the columns are those of the model as it was.
    text = "MODEL (constraints [not_null(|)]);\nSELECT customer FROM stg_orders"
    assert [c.label for c in offer(point, text, "column")] == ["customer", "total", "label"]


@pytest.mark.parametrize("text", ["SELECT 'abc|' AS a", "SELECT 1 -- com|\n", "SELECT /* a | b */ 1", "SELECT 'abc|"])
def test_nothing_in_texts_and_comments(point: Point, text: str) -> None:
    assert complete(*point(TOTALS, text)) == []


def test_what_is_typed_is_replaced(point: Point) -> None:
    snapshot, path, offset = point(TOTALS, "SELECT cust| FROM stg_orders")
    [customer] = [c for c in complete(snapshot, path, offset) if c.label == "customer"]
    assert snapshot.read_text(path)[customer.start : offset] == "cust"
