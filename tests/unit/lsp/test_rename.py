"""Renaming through the project, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqb.lsp.rename import CannotRename, rename
from sqb.lsp.snapshot import ProjectReader
from unit.lsp.conftest import Cursor

TOTALS, STAGING = "models/marts/totals.sql", "models/staging/stg_orders.sql"
Find = Callable[..., Cursor]


def apply(cursor: Cursor, name: str, reader: ProjectReader) -> dict[str, str]:
    done = rename(*cursor, name, reader.check)
    texts = done.apply(cursor[0])
    if done.moved is None:
        assert reader.check(texts) == ()
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
    assert done.moved == (STAGING, "models/staging/stg_sales.sql")
    assert "FROM stg_sales AS o" in done.apply(find(TOTALS, "stg_orders")[0])[TOTALS]


@pytest.mark.parametrize(
    ("path", "text", "name", "why"),
    [
        (TOTALS, "amount", "customer", "has a column customer already"),
        (TOTALS, "stg_orders", "stg orders", "letters, digits and underscores"),
        (STAGING, "placed_on", "on_day", "is not a model"),
        (TOTALS, "upper", "lower", "only models, columns"),
    ],
)
def test_refused(find: Find, reader: ProjectReader, path: str, text: str, name: str, why: str) -> None:
    with pytest.raises(CannotRename, match=why):
        rename(*find(path, text), name, reader.check)
