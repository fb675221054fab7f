"""Functions in the place of their calls: the text that is run, and what is refused."""

from __future__ import annotations

import pytest

from sqb.errors.base import SqbError, flatten
from sqb.sql.functions.inline import CallProblem
from sqb.sql.text.spans import find_piece, trace_offset
from support.functions import inlined, inlined_text, read_functions

INC = "CREATE FUNCTION inc(x INT) RETURNS INT RETURN x + 1"
TWICE = "CREATE FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN x + x"
ONCE = "CREATE FUNCTION scaled(x DOUBLE) RETURNS DOUBLE RETURN round(x * 100, 2)"
RATE = "CREATE FUNCTION rate(k INT) RETURNS INT RETURN (SELECT max(rate) FROM rates WHERE rates.k = rate.k)"
FEE = "CREATE FUNCTION fee(x INT) RETURNS INT RETURN x * (SELECT max(rate) FROM rates)"
BOTH = "CREATE FUNCTION both(x INT, y STRING DEFAULT 'a') RETURNS STRING RETURN concat(x, y)"

PAIRS = {
    "a call": (
        [INC],
        "SELECT inc(a) AS b FROM t",
        "SELECT CAST((CAST(a AS INT) + 1) AS INT) AS b FROM t",
    ),
    "the case of names and quotes do not matter": (
        [INC],
        "SELECT INC(a) AS b, `inc`(c) AS d FROM t",
        "SELECT CAST((CAST(a AS INT) + 1) AS INT) AS b, CAST((CAST(c AS INT) + 1) AS INT) AS d FROM t",
    ),
    "an expression as argument needs no brackets": (
        [INC],
        "SELECT 2 * inc(a + b) AS c FROM t",
        "SELECT 2 * CAST((CAST(a + b AS INT) + 1) AS INT) AS c FROM t",
    ),
    "a call in a call": (
        [INC],
        "SELECT inc(inc(a)) AS b FROM t",
        "SELECT CAST((CAST(CAST((CAST(a AS INT) + 1) AS INT) AS INT) + 1) AS INT) AS b FROM t",
    ),
    "no type is declared for the result": (
        ["CREATE FUNCTION inc(x INT) RETURN x + 1"],
        "SELECT inc(a) AS b FROM t",
        "SELECT (CAST(a AS INT) + 1) AS b FROM t",
    ),
    "no parameters": (
        ["CREATE FUNCTION answer() RETURNS INT RETURN 42"],
        "SELECT answer() AS b",
        "SELECT CAST((42) AS INT) AS b",
    ),
    "types are written one way": (
        ["CREATE FUNCTION f(x dec(4), y ARRAY<STRUCT<a: INTEGER>>) RETURNS LONG RETURN x + y[0].a"],
        "SELECT f(a, b) AS c FROM t",
        "SELECT CAST((CAST(a AS DECIMAL(4,0)) + CAST(b AS ARRAY<STRUCT<`a`: INT>>)[0].a) AS BIGINT) AS c FROM t",
    ),
    "arguments by name, and defaults": (
        [BOTH],
        "SELECT both(1) AS a, both(y => 'q', x => 2) AS b, both(1, y => 'z') AS c",
        "SELECT CAST((concat(CAST(1 AS INT), CAST('a' AS STRING))) AS STRING) AS a,"
        " CAST((concat(CAST(2 AS INT), CAST('q' AS STRING))) AS STRING) AS b,"
        " CAST((concat(CAST(1 AS INT), CAST('z' AS STRING))) AS STRING) AS c",
    ),
    "the parameter by its whole name": (
        ["CREATE FUNCTION inc(x STRUCT<b: INT>) RETURNS INT RETURN inc.x.b + x.b"],
        "SELECT inc(a) AS b FROM t",
        "SELECT CAST((CAST(a AS STRUCT<`b`: INT>).b + CAST(a AS STRUCT<`b`: INT>).b) AS INT) AS b FROM t",
    ),
    "functions call functions": (
        [INC, "CREATE FUNCTION more(n INT) RETURNS INT RETURN inc(n) * inc(x => 2)"],
        "SELECT more(a) AS b FROM t",
        "SELECT CAST((CAST((CAST(CAST(a AS INT) AS INT) + 1) AS INT) * CAST((CAST(2 AS INT) + 1) AS INT)) AS INT)"
        " AS b FROM t",
    ),
    "names that look like parameters and are none": (
        ["CREATE FUNCTION f(date STRING, x INT) RETURNS STRING RETURN CAST(date AS DATE) || date '2020-01-01' || x"],
        "SELECT f(a, 1) AS b FROM t",
        "SELECT CAST((CAST(CAST(a AS STRING) AS DATE) || date '2020-01-01' || CAST(1 AS INT)) AS STRING) AS b FROM t",
    ),
    "comments and strings are no calls": (
        [INC],
        "SELECT 'inc(1)' AS a, inc /* yes */ (b -- why\n) AS c FROM t -- inc(2)",
        "SELECT 'inc(1)' AS a, CAST((CAST(b AS INT) + 1) AS INT) AS c FROM t -- inc(2)",
    ),
    "comments of the function stay at home": (
        ["CREATE FUNCTION inc(x INT) RETURNS INT RETURN x -- one more\n + 1 -- end"],
        "SELECT inc(a) AS b FROM t",
        "SELECT CAST((CAST(a AS INT) -- one more\n + 1) AS INT) AS b FROM t",
    ),
    "names of tables and queries are no calls": (
        [INC],
        "WITH inc(a) AS (SELECT 1) SELECT i.a FROM inc AS i(a) JOIN t inc(b) ON s.inc(1) = i.a",
        "WITH inc(a) AS (SELECT 1) SELECT i.a FROM inc AS i(a) JOIN t inc(b) ON s.inc(1) = i.a",
    ),
    "a variable of a lambda does not catch what it is given": (
        ["CREATE FUNCTION f(xs ARRAY<INT>, y INT) RETURNS ARRAY<INT> RETURN transform(xs, e -> e + y)"],
        "SELECT f(a, e) AS b FROM t",
        "SELECT CAST((transform(CAST(a AS ARRAY<INT>), `e_1` -> `e_1` + CAST(e AS INT))) AS ARRAY<INT>) AS b FROM t",
    ),
    "a variable of a lambda hides a parameter": (
        ["CREATE FUNCTION f(xs ARRAY<INT>, e INT) RETURNS ARRAY<INT> RETURN transform(xs, e -> e + 1)"],
        "SELECT f(a, 5) AS b FROM t",
        "SELECT CAST((transform(CAST(a AS ARRAY<INT>), e -> e + 1)) AS ARRAY<INT>) AS b FROM t",
    ),
    "a body with a subquery is read over one row": (
        [RATE],
        "SELECT rate(a) AS b FROM t",
        "SELECT CAST((SELECT ((SELECT max(rate) FROM `@function`.`rates` WHERE rates.k = rate.k))"
        " FROM (SELECT CAST(a AS INT) AS `k`) AS `rate`) AS INT) AS b FROM t",
    ),
    "several arguments get their names one query further out": (
        ["CREATE FUNCTION f(x INT, y INT) RETURNS INT RETURN SELECT max(v) FROM s.t WHERE k = x AND l = y"],
        "SELECT f(y, x) AS b FROM t",
        "SELECT CAST((SELECT ((SELECT max(v) FROM s.t WHERE k = x AND l = y))"
        " FROM (SELECT __sqb_0 AS `x`, __sqb_1 AS `y` FROM"
        " (SELECT CAST(y AS INT) AS __sqb_0, CAST(x AS INT) AS __sqb_1)) AS `f`) AS INT) AS b FROM t",
    ),
    "a column without a name is called as it was written": (
        [INC],
        "SELECT inc(a), 1 + inc(b)  * 2, inc(c) AS c, (SELECT inc(1)) FROM t GROUP BY inc(a)",
        "SELECT CAST((CAST(a AS INT) + 1) AS INT) AS `inc(a)`,"
        " 1 + CAST((CAST(b AS INT) + 1) AS INT)  * 2 AS `1 + inc(b) * 2`,"
        " CAST((CAST(c AS INT) + 1) AS INT) AS c, (SELECT CAST((CAST(1 AS INT) + 1) AS INT) AS `inc(1)`) FROM t"
        " GROUP BY CAST((CAST(a AS INT) + 1) AS INT)",
    ),
    "IS DISTINCT FROM is not where the list ends": (
        [INC],
        "SELECT inc(a) IS DISTINCT FROM b FROM t",
        "SELECT CAST((CAST(a AS INT) + 1) AS INT) IS DISTINCT FROM b AS `inc(a) IS DISTINCT FROM b` FROM t",
    ),
    "what is given may aggregate": (
        [INC],
        "SELECT inc(sum(a)) AS b FROM t",
        "SELECT CAST((CAST(sum(a) AS INT) + 1) AS INT) AS b FROM t",
    ),
    "chance that is used once": (
        [ONCE],
        "SELECT scaled(rand()) AS b FROM t",
        "SELECT CAST((round(CAST(rand() AS DOUBLE) * 100, 2)) AS DOUBLE) AS b FROM t",
    ),
    "the clock is the same all through a query": (
        ["CREATE FUNCTION f(x DATE) RETURNS STRING RETURN concat(x, x)"],
        "SELECT f(current_date()) AS b FROM t",
        "SELECT CAST((concat(CAST(current_date() AS DATE), CAST(current_date() AS DATE))) AS STRING) AS b FROM t",
    ),
    "a query that sqlglot does not read": (
        [INC],
        "FROM t |> SELECT inc(a) AS b",
        "FROM t |> SELECT CAST((CAST(a AS INT) + 1) AS INT) AS b",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_query_with_functions_in_it(name: str) -> None:
    functions, query, expected = PAIRS[name]
    assert inlined_text(functions, query) == expected


def test_python_functions_stay_calls_and_their_arguments_do_not() -> None:
    result = inlined([INC], "SELECT shout(inc(a)) AS b FROM t", "def shout(x: int, y: int = 1) -> str: ...")
    assert result.expanded.text == "SELECT shout(CAST((CAST(a AS INT) + 1) AS INT)) AS b FROM t"
    assert set(result.functions) == {"inc", "shout"}


def test_functions_used_through_others_are_used() -> None:
    more = "CREATE FUNCTION more(n INT) RETURNS INT RETURN inc(n)"
    assert set(inlined([INC, more, TWICE], "SELECT more(1) AS a").functions) == {"inc", "more"}


def test_every_offset_leads_back_to_the_call_or_to_what_it_was_given() -> None:
    query = "SELECT x, inc(abc) AS b FROM t"
    value = inlined([INC], query).expanded
    where = value.text.index("abc")
    assert trace_offset(value.pieces, where) == query.index("abc")
    plus = value.text.index("+ 1")
    inside = find_piece(value.pieces, plus)
    assert inside is not None and inside.within == "inc"
    assert query[inside.origin : inside.origin_end] == "inc(abc)"
    assert trace_offset(value.pieces, value.text.index("FROM")) == query.index("FROM")


WRONG_CALLS = {
    "too few": ([INC], "SELECT inc() AS a", "inc()", "inc: x is missing"),
    "too many": ([INC], "SELECT inc(1, 2) AS a", "2", "inc: it takes 1 argument, and is given 2"),
    "no such name": ([INC], "SELECT inc(y => 2) AS a", "2", "inc: it has no parameter y"),
    "twice": ([BOTH], "SELECT both(1, x => 2) AS a", "2", "both: x is given twice"),
    "position after name": (
        [BOTH],
        "SELECT both(x => 1, 2) AS a",
        "2",
        "both: an argument without a name follows one with a name",
    ),
    "distinct": ([INC], "SELECT inc(DISTINCT a) AS a FROM t", "DISTINCT a", "inc: DISTINCT is not an argument"),
    "a star": ([INC], "SELECT inc(*) AS a FROM t", "*", "inc: * is not an argument"),
    "a table": ([INC], "SELECT * FROM inc(1)", "inc(1)", "inc returns one value, but is read as a table"),
    "chance twice": (
        [TWICE],
        "SELECT twice(rand()) AS a",
        "rand()",
        "rand() gives something else each time, and twice may use x more than once",
    ),
    "chance through a function": (
        [TWICE, "CREATE FUNCTION f(y DOUBLE) RETURNS DOUBLE RETURN twice(y)"],
        "SELECT f(uuid()) AS a",
        "uuid()",
        "uuid() gives something else each time, and f may use y more than once",
    ),
    "chance in a condition": (
        ["CREATE FUNCTION f(x BIGINT, y BOOLEAN) RETURNS BIGINT RETURN CASE WHEN y THEN x END"],
        "SELECT f(monotonically_increasing_id(), true) AS a",
        "monotonically_increasing_id()",
        "monotonically_increasing_id() gives something else each time, and f may use x more than once",
    ),
    "chance for a subquery": (
        [FEE],
        "SELECT fee(rand()) AS a FROM t",
        "fee(rand())",
        "fee has a subquery, in which rand() would not be asked for each row",
    ),
    "chance beside a subquery, through a function": (
        [
            "CREATE FUNCTION dice() RETURNS DOUBLE RETURN rand()",
            "CREATE FUNCTION f(x INT) RETURNS DOUBLE RETURN dice() + (SELECT x)",
        ],
        "SELECT f(1) AS a FROM t",
        "f(1)",
        "f has a subquery, in which rand() would not be asked for each row",
    ),
    "the file of a row for a subquery": (
        [RATE],
        "SELECT rate(input_file_name()) AS a FROM t",
        "rate(input_file_name())",
        "rate has a subquery, in which input_file_name() would not be asked for each row",
    ),
    "an aggregate for a subquery": (
        [FEE],
        "SELECT fee(sum(a)) AS a FROM t",
        "sum(a)",
        "fee has a subquery, which cannot be given an aggregate or a window function",
    ),
    "a window for a subquery, through a function": (
        [FEE, "CREATE FUNCTION f(y INT) RETURNS INT RETURN fee(y)"],
        "SELECT f(row_number() OVER (ORDER BY a)) AS a FROM t",
        "f(row_number() OVER (ORDER BY a))",
        "fee has a subquery, which cannot be given an aggregate or a window function",
    ),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_call_that_cannot_be_carried_out(name: str) -> None:
    functions, query, place, message = WRONG_CALLS[name]
    with pytest.raises(CallProblem) as caught:
        inlined_text(functions, query)
    assert (query[caught.value.start : caught.value.end], caught.value.message) == (place, message)


def test_an_aggregate_of_its_own_subquery_may_be_given() -> None:
    assert "max(a)" in inlined_text([FEE], "SELECT fee((SELECT max(a) FROM u)) AS a FROM t")


def test_a_query_that_would_have_no_end_is_refused() -> None:
    query = "a"
    for _ in range(30):
        query = f"twice({query})"
    with pytest.raises(CallProblem, match="too long"):
        inlined_text([TWICE], f"SELECT {query} AS a FROM t")


WRONG_FUNCTIONS = {
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN y": ("1:45", "f has no parameter y"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN sum(x)": (
        "1:45",
        "a scalar function cannot aggregate, use a window or make rows",
    ),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN rank() OVER (ORDER BY x)": (
        "1:45",
        "a scalar function cannot aggregate, use a window or make rows",
    ),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x, 1": ("1:45", "a scalar function returns one value"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x y": ("1:45", "a scalar function returns one value without a name"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN (x": ("1:45", "this ( is never closed"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN": ("1:38", "nothing follows RETURN"),
    "CREATE FUNCTION f(x INT) RETURNS INT": ("1:34", "RETURN is missing"),
    "CREATE FUNCTION f(x INT) RETURNS TABLE (a INT) RETURN SELECT 1": (
        "1:34",
        "sqb does not support SQL functions that return a table",
    ),
    "CREATE FUNCTION f(x INTT) RETURNS INT RETURN x": ("1:21", "there is no type INTT"),
    "CREATE FUNCTION f(x VARCHAR(3)) RETURNS INT RETURN x": ("1:21", "VARCHAR is not a type that a function can have"),
    "CREATE FUNCTION f(x INT, X INT) RETURNS INT RETURN x": ("1:26", "the parameter x is declared twice"),
    "CREATE FUNCTION f(x INT DEFAULT 1, y INT) RETURNS INT RETURN x": (
        "1:36",
        "y has no default and follows one that has",
    ),
    "CREATE FUNCTION f(x INT, y INT DEFAULT x) RETURNS INT RETURN x": (
        "1:40",
        "a default must be a constant, and x is not",
    ),
    "CREATE FUNCTION f(x INT DEFAULT (SELECT 1)) RETURNS INT RETURN x": ("1:33", "a default has no subquery"),
    "CREATE FUNCTION f(x INT) RETURNS INT MODIFIES SQL DATA RETURN x": ("1:38", "MODIFIES is not understood here"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x; SELECT 1": ("1:46", "a second statement begins here"),
    "CREATE FUNCTION abs(x INT) RETURNS INT RETURN x": ("1:17", "abs is a function of Spark's own"),
    "CREATE FUNCTION values(x INT) RETURNS INT RETURN x": ("1:17", "values is a word of SQL"),
    "CREATE TABLE f(x INT)": ("1:8", "FUNCTION is expected here"),
    "CREATE FUNCTION f(day INT) RETURNS DATE RETURN current_date() + INTERVAL 1 day": (
        "1:76",
        "day may be the parameter or a column here",
    ),
}


@pytest.mark.parametrize("statement", WRONG_FUNCTIONS)
def test_a_function_that_cannot_be(statement: str) -> None:
    with pytest.raises(SqbError) as caught:
        read_functions([statement])
    entry = flatten(caught.value)[0]
    place, message = WRONG_FUNCTIONS[statement]
    assert (str(entry.at).partition(":")[2], entry.message) == (place, message)


def test_functions_in_a_circle_are_an_error_that_shows_it() -> None:
    f = "CREATE FUNCTION f(x INT) RETURNS INT RETURN g(x) + 1"
    g = "CREATE FUNCTION g(x INT) RETURNS INT RETURN h(x) + 1"
    h = "CREATE FUNCTION h(x INT) RETURNS INT RETURN f(x) + 1"
    with pytest.raises(SqbError) as caught:
        read_functions([f, g, h])
    (result,) = flatten(caught.value)
    assert (result.code, str(result.at)) == ("SQB-F003", "functions/f.sql:1:45")
    assert result.message == "functions call each other in a circle: f → g → h → f"


def test_a_wrong_call_in_a_function_has_its_place_there() -> None:
    with pytest.raises(SqbError) as caught:
        read_functions([INC, "CREATE FUNCTION f(x INT) RETURNS INT RETURN inc(x, 1)"])
    (result,) = flatten(caught.value)
    assert (result.code, str(result.at)) == ("SQB-F002", "functions/f.sql:1:52")
    assert result.hint == "write inc(x INT)"
