"""What is shown under the mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqb.lsp.functions import load_spark_texts
from sqb.lsp.hover import hover
from sqb.lsp.key_texts import KEY_TEXTS, KIND_TEXTS
from sqb.project.models.keys import KEYS
from unit.lsp.conftest import Cursor

TOTALS = "models/marts/totals.sql"
Find = Callable[..., Cursor]


def show(cursor: Cursor) -> str:
    markup = hover(*cursor)
    assert markup is not None
    return markup[0]


def test_a_model_has_its_columns_and_why_it_would_run(find: Find) -> None:
    text = show(find(TOTALS, "stg_orders"))
    assert text.startswith("**staging.stg_orders** · merge\n\nOrders, one by one\n")
    assert "| order_id | bigint |" in text
    assert "in euros" in text
    assert text.endswith("*Never built.*\n\nWould run: First run.")


def test_a_column_has_its_type_its_description_and_its_origin(find: Find) -> None:
    text = show(find(TOTALS, "amount"))
    assert text.startswith("**amount** ") and "· staging.stg_orders\n\nin euros" in text
    assert text.endswith("from `seeds.orders.amount`")


def test_a_column_that_is_computed_shows_how(find: Find) -> None:
    assert "sum(o.amount)" in show(find(TOTALS, "total,", 2))


def test_a_column_of_a_cte(point: Callable[[str, str], Cursor]) -> None:
    text = "WITH a AS (SELECT customer AS who FROM stg_orders) SELECT who + 1 AS next FROM a WHERE w|ho > 1"
    assert show(point(TOTALS, text)) == "**who** bigint · column of this query"


def test_a_cte_has_its_columns(point: Callable[[str, str], Cursor]) -> None:
    text = "WITH a AS (SELECT customer, amount * 2 AS twice FROM stg_orders) SELECT twice FROM |a"
    assert show(point(TOTALS, text)).splitlines() == [
        "**a** · CTE",
        "",
        "| column | type |",
        "|---|---|",
        "| customer | bigint |",
        "| twice | double |",
    ]
    nested = "SELECT n FROM (WITH b AS (SELECT 1 AS n) SELECT * FROM |b) AS x"
    assert show(point(TOTALS, nested)).startswith("**b** · CTE\n\n| column | type |\n|---|---|\n| n |")


def test_functions_macros_variables_keys_and_checks(find: Find, point: Callable[[str, str], Cursor]) -> None:
    assert show(find(TOTALS, "upper")).startswith("```\nupper(str) → string\n```\n")
    assert show(find(TOTALS, "kind")).startswith("**kind**\n\nHow sqb materialises the model.")
    assert show(find(TOTALS, "not_null")) == "```\nnot_null(column, …)\n```"
    assert "Cents as euros." in show(point(TOTALS, "SELECT @eu|ros(amount) AS a FROM stg_orders"))
    assert show(point(TOTALS, "SELECT @@da|ys AS a FROM stg_orders")) == "**@@days** = `30`"


@pytest.mark.parametrize("text", ["SELECT 1 A|S a", "SELECT '|a' AS b"])
def test_nothing_to_say(point: Callable[[str, str], Cursor], text: str) -> None:
    assert hover(*point(TOTALS, text)) is None


def test_every_key_and_kind_has_a_sentence() -> None:
    assert KEYS.keys() <= KEY_TEXTS.keys()
    assert set(KEYS["kind"].choices) <= KIND_TEXTS.keys()


def test_nearly_every_function_of_spark_has_a_text() -> None:
    texts = load_spark_texts()
    assert len(texts) > 450 and sum(bool(t.text) for t in texts.values()) > 0.95 * len(texts)
