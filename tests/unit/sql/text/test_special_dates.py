"""Texts that Spark reads as another day each day make a query volatile; others do not."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query
from sqb.sql.delta.classify import classify_query
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.special_dates import iter_special_dates
from sqb.sql.text.template import Template


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP 'now'",
        "DATE 'today'",
        "date 'Yesterday'",
        "TIMESTAMP_NTZ ' NOW '",
        "TIMESTAMP_LTZ 'tomorrow'",
        "date('today\t')",
        "'now'::timestamp",
        "('now')::timestamp",
        "'today' :: DATE",
        "CAST('now' AS TIMESTAMP)",
        "CAST(upper('now') AS TIMESTAMP)",
        "try_cast('tomorrow' AS date)",
        "to_date('yesterday')",
        "to_timestamp ( 'now' )",
        "date_add('today', 1)",
        "extract(year FROM 'today')",
        "d < 'today'",
        "'today' = d",
        "d BETWEEN '2020-01-01' AND 'today'",
        "d IN (DATE '2020-01-01', 'today')",
        "coalesce(d, 'today')",
        "'today' + INTERVAL 1 DAY",
        "CAST('to' 'day' AS date)",
        "r'now'::timestamp",
        r"DATE 'to\u0064ay'",
        'DATE "today Europe/Berlin"',
        "CASE WHEN d > DATE '2020-01-01' THEN d ELSE 'today' END",
        "CASE WHEN a THEN 'today' WHEN b THEN CASE WHEN c THEN d END END",
        "CASE WHEN (CASE WHEN a THEN 1 ELSE 2 END) = 1 THEN 'today' ELSE d END",
        "CASE d WHEN 'today' THEN 1 ELSE 2 END",
        "if(a, d, 'today')",
        "if(a, 'today', if(b, '2020-01-01', s))",
        "CASE WHEN a THEN 'today' WHEN b THEN ' Epoch ' ELSE s END",
        "nvl2(a, 'today', d)",
        "decode(a, 1, d, 2, 'today')",
        "array(d, 'today')[1]",
        "map('a', d, 'b', 'today')",
        "lead(d, 1, 'today') OVER (ORDER BY d)",
        "d IS DISTINCT FROM 'today'",
        "'today' IS NOT DISTINCT FROM d",
        "TIMESTAMP 'today+01:00'",
    ],
)
def test_volatile(text: str) -> None:
    query = f"SELECT {text} AS x, d FROM t"
    assert len(list(iter_special_dates(tokenize_code(query)))) == 1
    assert read_query(query, {}).volatile


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP 'epoch'",
        "DATE '2020-01-01'",
        "to_date('epoch')",
        "'today'",
        "CASE WHEN a THEN 'today' ELSE 'now' END",
        "CASE WHEN d > date(s) THEN 'today' WHEN b THEN NULL ELSE 'now' END",
        "if(d > date(s), 'today', 'later')",
        "nvl2(d, 'today', NULL)",
        "CASE WHEN a THEN 'today' WHEN b THEN 'this week' ELSE s END",
        "array('today', 'tomorrow')",
        "concat('today', s)",
        "CAST('now' AS string)",
        "s = 'nowhere'",
        "s LIKE 'today'",
        "date(now_at)",
        "d < todays",
    ],
)
def test_the_same_each_day(text: str) -> None:
    assert list(iter_special_dates(tokenize_code(f"SELECT {text} AS x FROM t"))) == []


def test_it_is_said_as_it_is_written() -> None:
    assert list(iter_special_dates(tokenize_code("SELECT DATE ' Today '"))) == [("'Today'", 12)]


def test_a_query_with_one_is_not_followed() -> None:
    facts = classify_query(Template(("SELECT d FROM ", " AS t WHERE d < 'today'"), ("t",)), [{"d": "date"}])
    assert (facts.kind, facts.why) == ("opaque", "'today' is volatile")
