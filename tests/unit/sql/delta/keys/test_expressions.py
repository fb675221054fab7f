"""Which expressions are keys, and what they are written as. That both are one value is tried on Spark."""

from __future__ import annotations

import pytest

from sqb.sql.delta.classify import classify_query
from sqb.sql.delta.facts import Facts, find_day_span, format_key_expression, list_key_columns, render_key_expression
from sqb.sql.text.template import Template
from support.terms import NOT_TERMS, SCHEMA, TERMS


def _facts(expression: str) -> Facts:
    query = f"SELECT {expression} AS e, count(*) AS c FROM ", f" AS t GROUP BY {expression}"
    return classify_query(Template(query, ("t",)), [SCHEMA])


@pytest.mark.parametrize("expression", TERMS)
def test_terms(expression: str) -> None:
    facts = _facts(expression)
    assert facts.kind == "keyed"
    assert [(hole, render_key_expression(term), k.outputs) for k in facts.keys for hole, term in k.slots] == [
        (0, TERMS[expression], ("e",))
    ]


@pytest.mark.parametrize("expression", NOT_TERMS)
def test_what_might_fail_or_is_not_known(expression: str) -> None:
    assert _facts(expression).kind == "opaque"


def test_a_column_and_an_expression_are_read_alike() -> None:
    assert (render_key_expression("a b"), render_key_expression("a b", "r."), list_key_columns("a b")) == (
        "`a b`",
        "r.`a b`",
        ("a b",),
    )
    term = "concat(\0a b\0, lower(\0c\0), \0c\0)"
    assert render_key_expression(term, "r.") == "concat(r.`a b`, lower(r.`c`), r.`c`)"
    assert (list_key_columns(term), format_key_expression(term)) == (("a b", "c"), "concat(a b, lower(c), c)")
    spans = {
        "CAST(\0ts\0 AS DATE)": ("ts", 0, 0),
        "trunc(\0day\0, 'MM')": ("day", 0, 30),
        "trunc(\0day\0, 'WEEK')": ("day", 0, 6),
        "last_day(\0day\0)": ("day", 30, 0),
        "year(\0ts\0)": None,
        "trunc(last_day(\0day\0), 'MM')": None,
        "ts": None,
    }
    assert {expression: find_day_span(expression) for expression in spans} == spans
