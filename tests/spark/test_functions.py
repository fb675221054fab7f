"""Functions in the place of their calls give what Spark's own functions give: rows, names and types of columns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.functions import inlined_text

SETUP = [
    "CREATE TEMPORARY VIEW t AS SELECT * FROM VALUES"
    " (1, 'a', 2.7D, array(1, 2), named_struct('a', 1, 'b', 'x')),"
    " (2, 'b', -3.5D, array(3), named_struct('a', 2, 'b', 'y')),"
    " (3, NULL, NULL, NULL, NULL) AS t(id, name, v, xs, s)",
    "CREATE TEMPORARY VIEW rates AS SELECT * FROM VALUES (1, 10), (2, 20), (2, 21) AS r(k, rate)",
]
INC = "CREATE FUNCTION inc(x INT) RETURNS INT RETURN x + 1"
RATE = "CREATE FUNCTION rate_of(k INT) RETURNS INT RETURN (SELECT max(rate) FROM rates WHERE rates.k = rate_of.k)"
HIDDEN = "CREATE FUNCTION hidden(k INT) RETURNS INT RETURN (SELECT max(rate) FROM rates WHERE k = 1)"
SUM = "CREATE FUNCTION total(x INT, y INT) RETURNS BIGINT RETURN SELECT sum(rate) FROM rates WHERE k BETWEEN x AND y"
TEXT = "CREATE FUNCTION text(x DECIMAL(6,2), y STRING DEFAULT concat('-', 'a')) RETURNS STRING RETURN concat(x, y)"
MORE = "CREATE FUNCTION more(n BIGINT) RETURNS DECIMAL(5,1) RETURN inc(n) * inc(x => '2') + coalesce(rate_of(n), 0)"
ADD = "CREATE FUNCTION add_all(xs ARRAY<INT>, y INT) RETURNS ARRAY<BIGINT> RETURN transform(xs, e -> e + y)"
FIELD = "CREATE FUNCTION field(x STRUCT<a: BIGINT, b: STRING>) RETURNS STRING RETURN field.x.b || x.a"
NO_TYPE = "CREATE FUNCTION no_type(x TINYINT) RETURN x / 2"
IN = (
    "CREATE FUNCTION known(x INT) RETURNS BOOLEAN"
    " RETURN x IN (SELECT k FROM rates) OR EXISTS (SELECT 1 FROM rates WHERE k = x + 1)"
)

PAIRS: dict[str, tuple[list[str], str]] = {
    "casts of arguments": (
        [INC],
        "SELECT inc('12') AS a, inc(2.7) AS b, inc(-2.7) AS c, inc(true) AS d, inc(NULL) AS e",
    ),
    "a text that is no number": ([INC], "SELECT inc('abc') AS a"),
    "a type that cannot be cast": ([INC], "SELECT inc(DATE'2020-01-01') AS a"),
    "an overflow": ([INC], "SELECT inc(2147483647) AS a"),
    "too large for the result": ([INC, RATE, MORE], "SELECT more(10000) AS a"),
    "the type of the result": ([NO_TYPE, TEXT], "SELECT no_type(5) AS a, text(1.005) AS b, text(1, name) AS c FROM t"),
    "names of columns": ([INC, TEXT], "SELECT inc(id), inc(inc(id)), text(id, name) FROM t"),
    "filters and groups": (
        [INC],
        "SELECT inc(id) % 2 AS g, count(*) AS n FROM t WHERE inc(id) > 1 GROUP BY inc(id) % 2",
    ),
    "aggregates in and around": ([INC], "SELECT inc(sum(id)) AS a, sum(inc(id)) AS b FROM t"),
    "windows in and around": (
        [INC],
        "SELECT inc(row_number() OVER (ORDER BY id)) AS a, sum(inc(id)) OVER (ORDER BY inc(-id)) AS b FROM t",
    ),
    "joins": ([INC], "SELECT a.id, b.id FROM t a JOIN t b ON inc(a.id) = b.id"),
    "a table": ([RATE], "SELECT id, rate_of(id) AS r FROM t"),
    "a table, filtered": ([RATE], "SELECT id FROM t WHERE rate_of(id) = 10"),
    "a table, grouped": ([RATE], "SELECT rate_of(id) AS r, count(*) AS n FROM t GROUP BY rate_of(id)"),
    "a table, aggregated": ([RATE], "SELECT name, max(rate_of(id)) AS r FROM t GROUP BY name"),
    "columns before parameters": ([HIDDEN], "SELECT id, hidden(id) AS r FROM t"),
    "columns of the model are not seen": ([RATE], "SELECT k, rate_of(k) AS r FROM (SELECT id AS k, 5 AS rate FROM t)"),
    "arguments that change places": ([SUM], "SELECT total(y, x) AS r FROM (SELECT id AS x, 1 AS y FROM t)"),
    "arguments by name": ([SUM], "SELECT total(y => id, x => 1) AS r FROM t"),
    "IN and EXISTS": ([IN], "SELECT id, known(id) AS r FROM t"),
    "functions of functions": ([INC, RATE, MORE], "SELECT id, more(id) AS r FROM t"),
    "lambdas": ([ADD], "SELECT add_all(xs, e) AS r FROM (SELECT xs, id AS e FROM t)"),
    "a lambda in the argument": ([ADD], "SELECT add_all(transform(xs, e -> e * 2), 1) AS r FROM t"),
    "fields": ([FIELD], "SELECT field(s) AS a, field(struct(7, 'z')) AS b FROM t"),
    "a subquery as argument": ([INC, RATE], "SELECT inc((SELECT max(k) FROM rates)) AS a, rate_of((SELECT 1)) AS b"),
    "conditions": (
        [RATE, INC],
        "SELECT CASE WHEN id > 1 THEN rate_of(id) ELSE inc(id) END AS r FROM t",
    ),
}


@pytest.fixture(scope="module")
def answers() -> Any:
    """What Spark says to each query with its own functions, and with ours in their place."""
    pairs = {
        name: [functions, query, inlined_text(functions, query).replace("`@function`.", "")]
        for name, (functions, query) in PAIRS.items()
    }
    script = Path(__file__).parents[1] / "support" / "bare_spark.py"
    asked = json.dumps({"setup": SETUP, "pairs": pairs})
    done = subprocess.run([sys.executable, script], input=asked, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.partition("answers: ")[2])


@pytest.mark.parametrize("name", PAIRS)
def test_our_functions_say_what_sparks_own_say(answers: Any, name: str) -> None:
    own, ours = answers[name]
    assert ours == own
