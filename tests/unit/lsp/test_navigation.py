"""Where things are defined and used."""

from __future__ import annotations

from collections.abc import Callable

from sqb.lsp.navigation import find_definition, find_references
from sqb.lsp.places import Place
from unit.lsp.conftest import Cursor

TOTALS, STAGING = "models/marts/totals.sql", "models/staging/stg_orders.sql"
Find = Callable[..., Cursor]


def spell(cursor: Cursor, places: list[Place]) -> list[tuple[str, int, str]]:
    """Files, lines and texts of places."""
    texts = [(p, cursor[0].read_text(p.file)) for p in places]
    return [(p.file, t.count("\n", 0, p.start) + 1, t[p.start : p.end]) for p, t in texts]


def define(cursor: Cursor) -> list[tuple[str, int, str]]:
    return spell(cursor, find_definition(*cursor))


def refer(cursor: Cursor) -> list[tuple[str, int, str]]:
    return sorted(spell(cursor, find_references(*cursor)))


def test_a_model_is_its_file(find: Find) -> None:
    assert define(find(TOTALS, "stg_orders")) == [(STAGING, 1, "")]


def test_a_source_is_its_entry(point: Callable[[str, str], Cursor]) -> None:
    [(file, line, _)] = define(point(TOTALS, "SELECT * FROM raw.ev|ents"))
    assert (file, line) == ("sources/raw.yml", 2)


def test_columns_are_where_they_are_named(find: Find) -> None:
    assert define(find(TOTALS, "amount")) == [(STAGING, 9, "amount")]
    assert define(find(TOTALS, "total,", 2)) == [(TOTALS, 5, "total")]
    assert define(find(STAGING, "placed_on")) == [("seeds/orders.csv", 1, "placed_on")]


def test_a_cte_is_where_it_is_named(find: Find) -> None:
    assert define(find(TOTALS, "by_customer b")) == [(TOTALS, 4, "by_customer")]


def test_macros_and_variables(point: Callable[[str, str], Cursor]) -> None:
    assert define(point(TOTALS, "SELECT @eu|ros(amount) AS a FROM stg_orders")) == [("macros/money.py", 1, "euros")]
    assert define(point(TOTALS, "SELECT @@da|ys AS a")) == [("sqlbuild_project.toml", 4, "days ")]


def test_references_of_a_model(find: Find) -> None:
    assert refer(find("models/marts/everything.sql", "totals")) == [
        ("models/marts/everything.sql", 1, "totals"),
        (TOTALS, 1, ""),
    ]


def test_references_of_a_column_are_in_headers_and_readers(find: Find) -> None:
    assert refer(find(TOTALS, "amount")) == [
        (TOTALS, 5, "amount"),
        (STAGING, 5, "amount"),
        (STAGING, 6, "amount"),
        (STAGING, 9, "amount"),
    ]


def test_references_of_a_column_that_a_cte_makes(find: Find) -> None:
    assert refer(find(TOTALS, "total,", 2)) == [
        (TOTALS, 3, "total"),
        (TOTALS, 5, "total"),
        (TOTALS, 9, "total"),
        (TOTALS, 9, "total"),
    ]


def test_an_alias_is_found_in_order_by(find: Find) -> None:
    assert refer(find(TOTALS, "label")) == [(TOTALS, 9, "label"), (TOTALS, 9, "label")]
