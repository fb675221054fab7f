"""What other databases read and Spark does not is an error that says what is written here."""

from __future__ import annotations

import re

import pytest

from sqb.sql.analysis.parse import read_query
from sqb.sql.analysis.query import QueryProblem

MISTAKES = [
    ("SELECT cast(a AS VARCHAR) AS a FROM t", "the type VARCHAR needs a length", "VARCHAR", "write string"),
    ("SELECT a::char AS a FROM t", "the type char needs a length", "char", "write string"),
    ("SELECT cast(a AS NUMBER) AS a FROM t", "there is no type NUMBER", "NUMBER", r"write decimal\(38,0\)"),
    ("SELECT a::int64 AS a FROM t", "there is no type int64", "int64", "write bigint"),
    ("SELECT a::text FROM t", "there is no type text", "text", "write string"),
    ("SELECT try_cast(f(a) AS DATETIME) AS a FROM t", "there is no type DATETIME", "DATETIME", "write timestamp"),
    ("SELECT cast(a AS decimal(50, 2)) AS a FROM t", "a decimal has at most 38 digits", "50", None),
    ("SELECT cast(a AS tinyinteger) AS a FROM t", "there is no type tinyinteger", "tinyinteger", "'tinyint'"),
    ("SELECT * EXCLUDE (a) FROM t", "Spark has no * EXCLUDE", "EXCLUDE", r"write \* EXCEPT"),
    ("SELECT b, t.* replace (1 AS a) FROM t", "Spark has no * REPLACE", "replace", r"write \* EXCEPT"),
    ("SELECT * RENAME (a AS b) FROM t", "Spark has no * RENAME", "RENAME", r"write \* EXCEPT"),
    ("SELECT TOP 5 a FROM t", "Spark has no TOP", "TOP", "write LIMIT 5"),
    ("SELECT datediff('day', a, b) AS d FROM t", "the unit of datediff has no quotes", "'day'", r"datediff\(DAY"),
    ("SELECT dateadd('month', 1, a) AS d FROM t", "the unit of dateadd has no quotes", "'month'", r"dateadd\(MONTH"),
]


@pytest.mark.parametrize(("sql", "message", "marked", "hint"), MISTAKES)
def test_words_of_other_databases_are_told_with_those_of_spark(
    sql: str, message: str, marked: str, hint: str | None
) -> None:
    with pytest.raises(QueryProblem, match=message.replace("*", r"\*")) as caught:
        read_query(sql, {})
    problem = caught.value
    assert sql[problem.start : problem.end] == marked
    assert (problem.hint is None) == (hint is None)
    if hint is not None:
        assert re.search(hint, problem.hint or "")


LEGAL = [
    "SELECT cast(a AS VARCHAR(3)) AS a, cast(b AS dec) AS b, c::timestamp_ntz AS c, cast(d AS numeric(38)) AS d FROM t",
    "SELECT a * exclude (b) AS c FROM t",
    "SELECT cast AS varchar, top FROM (SELECT 1 AS cast, 2 AS top)",
    "SELECT cast((SELECT max(b) AS text FROM u) AS int) AS a FROM t",
    "SELECT cast(a AS interval day to second) AS a, cast(b AS array<string>) AS b, cast(c AS time(3)) AS c FROM t",
    "SELECT datediff('2024-01-02', a) AS d, date_add('2024-01-01', 1) AS e FROM t",
]


@pytest.mark.parametrize("sql", LEGAL)
def test_the_same_words_as_names_pass(sql: str) -> None:
    read_query(sql, {})
