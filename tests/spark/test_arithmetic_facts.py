"""What following changes relies on of Spark's arithmetic, as facts that Spark is asked for.

An aggregate that is brought up to date from its changes must be the one that Spark gives over all rows, to the digit.
Each fact is a query, the types of its columns and its rows; a new Spark that breaks one names the rule to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# Partial results of two partitions hide what depends on the order of rows.
_ONE_PARTITION = "/*+ COALESCE(1) */"
_MOST_LONG = "9223372036854775807L"
_MOST_DECIMAL = "CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0))"
_ZERO, _MINUS_ZERO, _NAN = "DOUBLE('0.0')", "DOUBLE('-0.0')", "DOUBLE('NaN')"


@dataclass(frozen=True, slots=True)
class Fact:
    """A query and what Spark makes of it: rows by their text, so that -0.0 is not 0.0; without `types` any."""

    name: str
    sql: str
    rows: tuple[str, ...]
    types: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A query that Spark refuses, and the condition that it names."""

    name: str
    sql: str
    condition: str


# --- sums ---------------------------------------------------------------------------------------------------------

SUMS = (
    Fact(
        "every sum of whole numbers is a bigint, every average of them a double",
        "SELECT sum(1Y), sum(1S), sum(1), sum(1L), avg(1Y), avg(1S), avg(1), avg(1L)",
        ("(1, 1, 1, 1, 1.0, 1.0, 1.0, 1.0)",),
        "bigint bigint bigint bigint double double double double",
    ),
    Fact(
        "sums of floats and of text are doubles",
        "SELECT sum(FLOAT(1)), avg(FLOAT(1)), sum('1'), avg('1'), sum(NULL)",
        ("(1.0, 1.0, 1.0, 1.0, None)",),
        "double double double double double",
    ),
    Fact(
        "a sum of decimal(p,s) is decimal(min(p + 10, 38), s)",
        "SELECT sum(CAST(0 AS DECIMAL(1,1))), sum(CAST(0 AS DECIMAL(15,2))), sum(CAST(0 AS DECIMAL(28,10))),"
        " sum(CAST(0 AS DECIMAL(38,18)))",
        ("(Decimal('0.0'), Decimal('0.00'), Decimal('0E-10'), Decimal('0E-18'))",),
        "decimal(11,1) decimal(25,2) decimal(38,10) decimal(38,18)",
    ),
    Fact(
        "as decimal(38,0) a sum of bigints passes the largest bigint on its way, and comes back",
        f"SELECT CAST(sum(CAST(x AS DECIMAL(38,0))) AS BIGINT) FROM (SELECT {_ONE_PARTITION} * FROM"
        f" VALUES ({_MOST_LONG}), (1L), (-1L) t(x))",
        ("(9223372036854775807,)",),
        "bigint",
    ),
    Fact(
        "decimal(38,s) + decimal(38,s) keeps its scale up to 6, beyond it loses one or more digits",
        "SELECT typeof(a0 + a0), typeof(a2 + a2), typeof(a6 + a6), typeof(a7 + a7), typeof(a18 + a18), typeof(b + b)"
        " FROM (SELECT CAST(0 AS DECIMAL(38,0)) a0, CAST(0 AS DECIMAL(38,2)) a2, CAST(0 AS DECIMAL(38,6)) a6,"
        " CAST(0 AS DECIMAL(38,7)) a7, CAST(0 AS DECIMAL(38,18)) a18, CAST(0 AS DECIMAL(37,18)) b)",
        ("('decimal(38,0)', 'decimal(38,2)', 'decimal(38,6)', 'decimal(38,6)', 'decimal(38,17)', 'decimal(38,18)')",),
    ),
    Fact(
        "state + change of decimal(38,18) is rounded, sum() over both is not",
        "SELECT sum(x), max(x) + CAST(0 AS DECIMAL(38,18)) FROM VALUES"
        " (CAST('0.123456789012345678' AS DECIMAL(38,18))), (CAST('-0.000000000000000001' AS DECIMAL(38,18))) t(x)",
        ("(Decimal('0.123456789012345677'), Decimal('0.12345678901234568'))",),
        "decimal(38,18) decimal(38,17)",
    ),
    Fact(
        "a decimal times a weight is rounded, its negation is not",
        "SELECT x * -1L, x * -1, x * CAST(-1 AS DECIMAL(20,0)), -x"
        " FROM VALUES (CAST('0.123456789012345678' AS DECIMAL(38,18))) t(x)",
        (
            "(Decimal('-0.1234567890123457'), Decimal('-0.1234567890123457'), Decimal('-0.123457'),"
            " Decimal('-0.123456789012345678'))",
        ),
        "decimal(38,16) decimal(38,16) decimal(38,6) decimal(38,18)",
    ),
    Fact(
        "a weight changes the type of a sum even where it loses nothing",
        "SELECT sum(d), sum(d * 1), sum(d * CAST(1 AS BIGINT)), sum(IF(true, d, -d))"
        " FROM (SELECT CAST(0 AS DECIMAL(15,2)) d)",
        ("(Decimal('0.00'), Decimal('0.00'), Decimal('0.00'), Decimal('0.00'))",),
        "decimal(25,2) decimal(27,2) decimal(38,2) decimal(25,2)",
    ),
    Fact(
        "without groups a sum of decimals may pass decimal(38) on its way; with groups it may not (see refusals)",
        f"SELECT sum(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES ({_MOST_DECIMAL}), (1), (-1) t(x))",
        ("(Decimal('99999999999999999999999999999999999999'),)",),
        "decimal(38,0)",
    ),
    Fact(
        "try_sum gives NULL where sum overflows",
        f"SELECT try_sum(x), count(x) FROM VALUES ({_MOST_DECIMAL}), (1) t(x)",
        ("(None, 2)",),
    ),
    Fact(
        "a sum of floats depends on the order of rows",
        f"SELECT (SELECT sum(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (1e16D), (1D), (-1e16D) t(x))),"
        f" (SELECT sum(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (1e16D), (-1e16D), (1D) t(x)))",
        ("(0.0, 1.0)",),
    ),
    Fact(
        "a sum of intervals keeps their fields, an average has all of them; sum / count rounds as avg does, half up",
        "SELECT typeof(sum(d)), typeof(avg(d)), typeof(sum(m)), typeof(avg(m)), STRING(avg(m)),"
        " STRING(sum(m) / count(m)), STRING(avg(s)), STRING(sum(s) / count(s)) FROM VALUES"
        " (INTERVAL '1' DAY, INTERVAL '-1' MONTH, INTERVAL '-0.000001' SECOND),"
        " (INTERVAL '2' DAY, INTERVAL '0' MONTH, INTERVAL '0' SECOND), (NULL, NULL, NULL) t(d, m, s)",
        (
            "('interval day', 'interval day to second', 'interval month', 'interval year to month',"
            " \"INTERVAL '-0-1' YEAR TO MONTH\", \"INTERVAL '-0-1' YEAR TO MONTH\","
            " \"INTERVAL '-0 00:00:00.000001' DAY TO SECOND\", \"INTERVAL '-0 00:00:00.000001' DAY TO SECOND\")",
        ),
    ),
)

SUM_REFUSALS = (
    Refusal(
        "a sum of bigints overflows on its way, though its end would fit",
        f"SELECT sum(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES ({_MOST_LONG}), (1L), (-1L) t(x))",
        "ARITHMETIC_OVERFLOW",
    ),
    Refusal(
        "the cast back from decimal(38,0) overflows as the sum would, with another condition",
        f"SELECT CAST(sum(CAST(x AS DECIMAL(38,0))) AS BIGINT) FROM VALUES ({_MOST_LONG}), (1L) t(x)",
        "CAST_OVERFLOW",
    ),
    Refusal(
        "a sum of decimals in groups overflows on its way",
        f"SELECT g, sum(x) FROM (SELECT {_ONE_PARTITION} * FROM"
        f" VALUES (1, {_MOST_DECIMAL}), (1, 1), (1, -1) t(g, x)) GROUP BY g",
        "ARITHMETIC_OVERFLOW",
    ),
    Refusal(
        "a sum of decimals without groups overflows at its end",
        f"SELECT sum(x) FROM VALUES ({_MOST_DECIMAL}), (1) t(x)",
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
    ),
    Refusal(
        "a sum of intervals overflows",
        "SELECT sum(x) FROM VALUES (INTERVAL '106751991' DAY), (INTERVAL '106751991' DAY) t(x)",
        "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION",
    ),
    Refusal(
        "intervals of months and days at once have no sum",
        "SELECT sum(x) FROM VALUES (make_interval(0, 1)) t(x)",
        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
    ),
    Refusal(
        "sum / count of decimal(38,0) has fewer whole digits than avg, and overflows where avg does not",
        "SELECT sum(x) / count(x) FROM VALUES (CAST('999999999999999999999999999999999' AS DECIMAL(38,0))) t(x)",
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
    ),
)

# --- averages -----------------------------------------------------------------------------------------------------

AVERAGES = (
    Fact(
        "an average of whole numbers sums doubles: below 2^53 it is sum / count",
        "SELECT avg(x), DOUBLE(sum(x)) / count(x), sum(x) / count(x) FROM VALUES (9007199254740990L), (1L), (1L) t(x)",
        ("(3002399751580330.5, 3002399751580330.5, 3002399751580330.5)",),
        "double double double",
    ),
    Fact(
        "beyond 2^53 it depends on the order of rows, and sum / count does not",
        f"SELECT (SELECT avg(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (9007199254740992L), (1L), (1L) t(x))),"
        f" (SELECT avg(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (1L), (1L), (9007199254740992L) t(x))),"
        " (SELECT sum(x) / count(x) FROM VALUES (9007199254740992L), (1L), (1L) t(x))",
        ("(3002399751580330.5, 3002399751580331.5, 3002399751580331.5)",),
    ),
    Fact(
        "an average of bigints does not overflow where their sum does",
        f"SELECT avg(x) FROM VALUES ({_MOST_LONG}), ({_MOST_LONG}) t(x)",
        ("(9.223372036854776e+18,)",),
        "double",
    ),
    Fact(
        "an average of decimal(p,s) is decimal(min(p + 4, 38), min(s + 4, 38))",
        "SELECT avg(CAST(0 AS DECIMAL(1,1))), avg(CAST(0 AS DECIMAL(15,2))), avg(CAST(0 AS DECIMAL(36,0))),"
        " avg(CAST(0 AS DECIMAL(38,37)))",
        ("(Decimal('0.00000'), Decimal('0.000000'), Decimal('0.0000'), Decimal('0E-38'))",),
        "decimal(5,5) decimal(19,6) decimal(38,4) decimal(38,38)",
    ),
    Fact(
        "decimal(38,0) is averaged with 34 whole digits",
        "SELECT avg(x) FROM VALUES (CAST('999999999999999999999999999999999' AS DECIMAL(38,0))) t(x)",
        ("(Decimal('999999999999999999999999999999999.0000'),)",),
        "decimal(38,4)",
    ),
)

# --- counts, booleans, extremes -----------------------------------------------------------------------------------

AGGREGATES = (
    Fact(
        "bool_and and bool_or leave NULL out, and are NULL without values",
        "SELECT g, bool_and(x), every(x), bool_or(x), some(x), any(x), count(x), count_if(x), count_if(NOT x)"
        " FROM VALUES (1, true), (1, NULL), (2, false), (2, NULL), (3, true), (3, false), (4, NULL) t(g, x) GROUP BY g",
        (
            "(1, True, True, True, True, True, 1, 1, 0)",
            "(2, False, False, False, False, False, 1, 0, 1)",
            "(3, False, False, True, True, True, 2, 1, 1)",
            "(4, None, None, None, None, None, 0, 0, 0)",
        ),
        "int boolean boolean boolean boolean boolean bigint bigint bigint",
    ),
    Fact(
        "FILTER and CASE: a sum of no values is NULL, of zeros 0; a count of none is 0",
        "SELECT sum(v) FILTER (WHERE v > 5), sum(CASE WHEN v > 5 THEN v END), sum(CASE WHEN v > 5 THEN v ELSE 0 END),"
        " count(v) FILTER (WHERE v > 5), count_if(v > 5), max(v) FILTER (WHERE v > 5), count(*) FILTER (WHERE v > NULL)"
        " FROM VALUES (1), (2) t(v)",
        ("(None, None, 0, 0, 0, None, 0)",),
        "bigint bigint bigint bigint bigint int bigint",
    ),
    Fact(
        "count leaves out rows in which any argument is NULL; count(DISTINCT a, b) does so too",
        "SELECT count(*), count(1), count(NULL), count(a), count(a, b), count(DISTINCT a, b), count(DISTINCT a)"
        " FROM VALUES (1, NULL), (1, NULL), (2, 3), (NULL, NULL) t(a, b)",
        ("(4, 4, 0, 3, 1, 1, 2)",),
    ),
    Fact(
        "a struct with a NULL field is not NULL: it counts, and so do arrays and maps",
        "SELECT count(DISTINCT struct(a, b)), count(struct(a, b)), count(DISTINCT array(a)), count(DISTINCT map(1, a))"
        " FROM VALUES (1, NULL), (1, NULL), (2, 3), (NULL, NULL) t(a, b)",
        ("(3, 4, 3, 3)",),
    ),
    Fact(
        "NaN is larger than any number and one value; zeros of both signs are one value",
        f"SELECT min(x), max(x), count(DISTINCT x), count(DISTINCT abs(x)) FROM"
        f" VALUES ({_NAN}), ({_NAN}), (1D), (DOUBLE('Infinity')), ({_ZERO}), ({_MINUS_ZERO}) t(x)",
        ("(0.0, nan, 4, 4)",),
    ),
    Fact(
        "of equal values the first is the extreme: zeros of both signs",
        f"SELECT g, max(x), min(x) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (1, {_ZERO}), (1, {_MINUS_ZERO}),"
        f" (2, {_MINUS_ZERO}), (2, {_ZERO}) t(g, x)) GROUP BY g",
        ("(1, 0.0, 0.0)", "(2, -0.0, -0.0)"),
    ),
    Fact(
        "of equal values the first is the extreme: letters under a collation",
        f"SELECT g, min(x COLLATE UTF8_LCASE) FROM (SELECT {_ONE_PARTITION} * FROM VALUES (1, 'a'), (1, 'A'),"
        f" (2, 'A'), (2, 'a') t(g, x)) GROUP BY g",
        ("(1, 'a')", "(2, 'A')"),
    ),
    Fact(
        "structs and arrays have extremes; NULL fields are the smallest",
        "SELECT min(struct(a, b)), max(struct(a, b)), min(array(a, b)), max(array(a, b))"
        " FROM VALUES (1, NULL), (1, 2) t(a, b)",
        ("(Row(a=1, b=None), Row(a=1, b=2), [1, None], [1, 2])",),
    ),
)

# --- groups -------------------------------------------------------------------------------------------------------

GROUPS = (
    Fact(
        "NULL is a group; NaN is one; zeros of both signs are one, shown as 0.0",
        f"SELECT x, count(*) FROM VALUES (NULL), (NULL), ({_NAN}), ({_NAN}), ({_MINUS_ZERO}), ({_MINUS_ZERO}) t(x)"
        " GROUP BY x",
        ("(None, 2)", "(nan, 2)", "(0.0, 2)"),
    ),
    Fact(
        "DISTINCT, EXCEPT and EXCEPT ALL show 0.0 for -0.0; UNION ALL and windows leave it",
        f"WITH z AS (SELECT * FROM VALUES ({_MINUS_ZERO}), (1D) t(x))"
        " SELECT 'distinct', x FROM (SELECT DISTINCT x FROM z) UNION ALL"
        " SELECT 'except', x FROM (SELECT x FROM z EXCEPT SELECT 1D) UNION ALL"
        " SELECT 'except all', x FROM (SELECT x FROM z EXCEPT ALL SELECT 1D) UNION ALL"
        " SELECT 'window', x FROM (SELECT x, count(*) OVER (PARTITION BY x) FROM z) WHERE x = 0 UNION ALL"
        " SELECT 'all', x FROM z WHERE x = 0",
        (
            "('distinct', 0.0)",
            "('distinct', 1.0)",
            "('except', 0.0)",
            "('except all', 0.0)",
            "('window', -0.0)",
            "('all', -0.0)",
        ),
    ),
    Fact(
        "where Spark sees that there is one row, it leaves DISTINCT out, and -0.0 as it is",
        f"SELECT DISTINCT x FROM (SELECT {_MINUS_ZERO} x)",
        ("(-0.0,)",),
    ),
    Fact(
        "under a collation a group shows the first of its spellings",
        f"SELECT x, count(*) FROM (SELECT {_ONE_PARTITION} x COLLATE UTF8_LCASE AS x FROM VALUES ('A'), ('a') t(x))"
        " GROUP BY x",
        ("('A', 2)",),
    ),
    Fact(
        "rows can be grouped by a map",
        "SELECT m, count(*) FROM VALUES (map(1, 2, 3, 4)), (map(3, 4, 1, 2)) t(m) GROUP BY m",
        ("({1: 2, 3: 4}, 2)",),
    ),
    Fact(
        "grouping sets that repeat give their rows twice, with the same grouping_id",
        "SELECT a, sum(v), grouping_id(), grouping(a) FROM VALUES (1, 10), (NULL, 5) t(a, v)"
        " GROUP BY GROUPING SETS ((a), (a), ())",
        ("(1, 10, 0, 0)", "(1, 10, 0, 0)", "(None, 5, 0, 0)", "(None, 5, 0, 0)", "(None, 15, 1, 1)"),
        "int bigint bigint tinyint",
    ),
    Fact(
        "in a CUBE a NULL group and a subtotal differ by grouping_id alone",
        "SELECT a, b, sum(v), grouping_id() FROM VALUES (1, 1, 10), (NULL, 2, 5) t(a, b, v) GROUP BY CUBE (a, b)",
        (
            "(1, 1, 10, 0)",
            "(None, 2, 5, 0)",
            "(1, None, 10, 1)",
            "(None, None, 5, 1)",
            "(None, 1, 10, 2)",
            "(None, 2, 5, 2)",
            "(None, None, 15, 3)",
        ),
    ),
    Fact(
        "a column that ROLLUP groups by is summed as it was, not as the NULL of the subtotal",
        "SELECT a, sum(a), count(a) FROM VALUES (1), (2) t(a) GROUP BY ROLLUP (a)",
        ("(1, 1, 1)", "(2, 2, 1)", "(None, 3, 2)"),
    ),
    Fact(
        "GROUP BY a, ROLLUP (a, b) repeats sets",
        "SELECT a, b, count(*), grouping_id() FROM VALUES (1, 2) t(a, b) GROUP BY a, ROLLUP (a, b)",
        ("(1, 2, 1, 0)", "(1, None, 1, 1)", "(1, None, 1, 1)"),
    ),
    Fact(
        "a global aggregate over nothing has a row",
        "SELECT count(*), count(x), sum(x), avg(x), min(x), bool_and(x > 0), count_if(x > 0), count(DISTINCT x),"
        " collect_list(x), coalesce(sum(x), 0) FROM (SELECT 1 x) WHERE x = 0",
        ("(0, 0, None, None, None, None, 0, 0, [], 0)",),
    ),
    Fact(
        "HAVING alone makes an aggregate global",
        "SELECT 1 FROM (SELECT 1 x) WHERE x = 0 HAVING count(*) = 0",
        ("(1,)",),
    ),
    Fact("groups over nothing are none", "SELECT x, sum(x) FROM (SELECT 1 x) WHERE x = 0 GROUP BY x", ()),
    Fact(
        "grouping sets over nothing are none either: even the grand total has no row",
        "SELECT y, sum(x) FROM (SELECT 1 x, 2 y) WHERE x = 0 GROUP BY ROLLUP (y) UNION ALL"
        " SELECT 0, sum(x) FROM (SELECT 1 x, 2 y) WHERE x = 0 GROUP BY GROUPING SETS (())",
        (),
    ),
    Fact(
        "set operations take NULL as a value",
        "SELECT 'except all', x FROM (SELECT * FROM VALUES (1), (NULL), (NULL) t(x) EXCEPT ALL SELECT NULL) UNION ALL"
        " SELECT 'intersect all', x FROM (SELECT * FROM VALUES (1), (NULL), (NULL) t(x) INTERSECT ALL SELECT NULL)"
        " UNION ALL SELECT 'except', x FROM (SELECT * FROM VALUES (1), (NULL) t(x) EXCEPT SELECT NULL)",
        ("('except all', 1)", "('except all', None)", "('intersect all', None)", "('except', 1)"),
    ),
)

# --- subqueries and joins -----------------------------------------------------------------------------------------

_LEFT = "VALUES (1), (2), (NULL) t(x)"
_WITH_NULL, _WITHOUT_NULL = "(SELECT y FROM VALUES (2), (NULL) u(y))", "(SELECT y FROM VALUES (2) u(y))"
_EMPTY = "(SELECT y FROM VALUES (2) u(y) WHERE y > 5)"

SUBQUERIES = (
    Fact("NOT IN a set with NULL holds for no row", f"SELECT x FROM {_LEFT} WHERE x NOT IN {_WITH_NULL}", ()),
    Fact(
        "NOT IN a set without NULL leaves NULL out", f"SELECT x FROM {_LEFT} WHERE x NOT IN {_WITHOUT_NULL}", ("(1,)",)
    ),
    Fact(
        "NOT IN an empty set holds for every row, NULL too",
        f"SELECT x FROM {_LEFT} WHERE x NOT IN {_EMPTY}",
        ("(1,)", "(2,)", "(None,)"),
    ),
    Fact(
        "a correlated NOT IN is empty or has NULL for each value of its correlation",
        "SELECT x, k FROM VALUES (1, 1), (1, 2), (NULL, 2), (NULL, 3) t(x, k)"
        " WHERE x NOT IN (SELECT y FROM VALUES (2, 1), (NULL, 1), (5, 2) u(y, j) WHERE j = k)",
        ("(1, 2)", "(None, 3)"),
    ),
    Fact(
        "IN as a value is never NULL in Spark, neither is NOT IN: both are false where SQL says NULL",
        f"SELECT x, x IN {_WITH_NULL}, x NOT IN {_WITH_NULL}, NOT (x IN {_WITH_NULL}), (x IN {_WITH_NULL}) IS NULL,"
        f" x NOT IN {_EMPTY} FROM {_LEFT}",
        (
            "(1, False, False, False, False, True)",
            "(2, True, False, False, False, True)",
            "(None, False, False, False, False, True)",
        ),
    ),
    Fact(
        "under OR, NOT IN knows of NULL",
        f"SELECT x FROM VALUES (1), (2), (NULL), (9) t(x) WHERE x NOT IN {_WITH_NULL} OR x = 9",
        ("(9,)",),
    ),
    Fact(
        "EXISTS as a value is never NULL",
        "SELECT x, EXISTS (SELECT 1 FROM VALUES (2), (NULL) u(y) WHERE y = x) FROM VALUES (1), (2), (NULL) t(x)",
        ("(1, False)", "(2, True)", "(None, False)"),
    ),
    Fact(
        "a scalar subquery without rows is NULL; with count it is 0, also in expressions, unless HAVING drops its row",
        "SELECT k, (SELECT x FROM VALUES (1) t(x) WHERE x = k GROUP BY x),"
        " (SELECT max(x) FROM VALUES (1) t(x) WHERE x = k),"
        " (SELECT count(*) FROM VALUES (1) t(x) WHERE x = k), (SELECT count(*) + 1 FROM VALUES (1) t(x) WHERE x = k),"
        " (SELECT coalesce(sum(x), 0) FROM VALUES (1) t(x) WHERE x = k),"
        " (SELECT count(*) FROM VALUES (1) t(x) WHERE x = k HAVING count(*) > 0) FROM VALUES (1), (2) u(k)",
        ("(1, 1, 1, 1, 2, 1, 1)", "(2, None, None, 0, 1, 0, None)"),
    ),
    Fact(
        "FULL JOIN USING has one key, of both sides, in their common type; NULL keys do not meet",
        "SELECT k, l.k, r.k, a, b FROM VALUES (1, 'a'), (2, 'b'), (NULL, 'n') l(k, a)"
        " FULL JOIN VALUES (2L, 'x'), (3L, 'y'), (NULL, 'm') r(k, b) USING (k)",
        (
            "(1, 1, None, 'a', None)",
            "(2, 2, 2, 'b', 'x')",
            "(3, None, 3, None, 'y')",
            "(None, None, None, 'n', None)",
            "(None, None, None, None, 'm')",
        ),
        "bigint int bigint string string",
    ),
    Fact(
        "JOIN USING has the key of the left side, RIGHT JOIN USING that of the right side, in its type",
        "SELECT (SELECT typeof(k) FROM VALUES (1) l(k) JOIN VALUES (1L) r(k) USING (k)),"
        " (SELECT typeof(k) FROM VALUES (1) l(k) LEFT JOIN VALUES (1L) r(k) USING (k)),"
        " (SELECT typeof(k) FROM VALUES (1) l(k) RIGHT JOIN VALUES (1L) r(k) USING (k))",
        ("('int', 'int', 'bigint')",),
    ),
    Fact(
        "joins compare in the common type: text with numbers and dates, zeros of both signs, NaN with NaN",
        f"SELECT 'number', a, STRING(b) FROM VALUES ('01') l(a) JOIN VALUES (1) r(b) ON a = b UNION ALL"
        f" SELECT 'date', a, STRING(b) FROM VALUES ('2024-1-1') l(a) JOIN VALUES (DATE'2024-01-01') r(b) ON a = b"
        f" UNION ALL SELECT 'double', STRING(a), STRING(b) FROM VALUES ({_MINUS_ZERO}), ({_NAN}) l(a)"
        f" JOIN VALUES ({_ZERO}), ({_NAN}) r(b) ON a = b",
        (
            "('number', '01', '1')",
            "('date', '2024-1-1', '2024-01-01')",
            "('double', '-0.0', '0.0')",
            "('double', 'NaN', 'NaN')",
        ),
    ),
)

SUBQUERY_REFUSALS = (
    Refusal(
        "a correlated scalar subquery of two rows",
        "SELECT k, (SELECT x FROM VALUES (1, 1), (1, 2) t(x, y) WHERE x = k GROUP BY x, y) FROM VALUES (1) u(k)",
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    ),
    Refusal(
        "DISTINCT maps",
        "SELECT DISTINCT m FROM VALUES (map(1, 2)) t(m)",
        "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE",
    ),
)


@pytest.mark.parametrize(
    "fact", [*SUMS, *AVERAGES, *AGGREGATES, *GROUPS, *SUBQUERIES], ids=lambda fact: fact.name.replace(" ", "_")
)
def test_facts(spark: SparkSession, fact: Fact) -> None:
    frame = spark.sql(fact.sql)
    assert _format(frame.collect()) == Counter(fact.rows)
    if fact.types:
        assert " ".join(kind for _, kind in frame.dtypes) == fact.types


@pytest.mark.parametrize(
    "refusal", [*SUM_REFUSALS, *SUBQUERY_REFUSALS], ids=lambda refusal: refusal.name.replace(" ", "_")
)
def test_refusals(spark: SparkSession, refusal: Refusal) -> None:
    with pytest.raises(PySparkException) as error:
        spark.sql(refusal.sql).collect()
    assert error.value.getCondition() == refusal.condition


def test_an_uncorrelated_scalar_subquery_of_two_rows_is_an_error_wherever_it_stands(spark: SparkSession) -> None:
    # PySpark gives it no condition of its own.
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        spark.sql("SELECT k FROM VALUES (2) u(k) WHERE k = 2 OR k = (SELECT x FROM VALUES (1), (3) t(x))").collect()


def division_scale(precision: int, scale: int) -> int:
    """The scale of sum(x) / count(x) for x of decimal(precision, scale)."""
    whole = min(precision + 10, 38) - scale
    return max(min(scale + 21, 38 - whole), min(scale + 21, 6))


@pytest.mark.parametrize(
    ("precision", "scale"), [(1, 0), (5, 2), (10, 0), (15, 2), (18, 6), (20, 4), (22, 2), (24, 10), (28, 2), (38, 2)]
)
def test_an_average_of_decimals_is_their_sum_divided_where_the_division_keeps_the_scale(
    spark: SparkSession, precision: int, scale: int
) -> None:
    digits = division_scale(precision, scale) - (scale + 4)
    assert digits >= 0
    # 13 values that fit, their sum too: quotients without end, of both signs and near halves.
    unit = f"CAST('{'1' if scale == 0 else '0.' + '1'.zfill(scale)}' AS DECIMAL({precision},{scale}))"
    rows = spark.sql(
        f"SELECT count(*), count_if(NOT (a <=> CAST(q AS DECIMAL({min(precision + 4, 38)},{scale + 4})))),"
        f" max(typeof(q)) FROM (SELECT g, avg(x) a, sum(x) / count(x) q FROM"
        f" (SELECT id % 97 g, CAST((id * 7 % 19 - 9) * {unit} AS DECIMAL({precision},{scale})) x"
        " FROM range(97 * 13)) GROUP BY g)"
    ).collect()
    assert tuple(rows[0])[:2] == (97, 0)
    assert rows[0][2].endswith(f",{division_scale(precision, scale)})")


@pytest.mark.parametrize(("precision", "scale"), [(22, 2), (20, 4)])
def test_a_division_that_is_rounded_twice_is_not_the_average(spark: SparkSession, precision: int, scale: int) -> None:
    """With d digits more than the average's, sum / count of fewer than 10^d values is it; of more it need not be."""
    beyond = 10 ** (division_scale(precision, scale) - (scale + 4))
    assert _quotients_near_a_half(spark, precision, scale, 2 * beyond + 1)
    assert not _quotients_near_a_half(spark, precision, scale, beyond - 1)


def _quotients_near_a_half(spark: SparkSession, precision: int, scale: int, count: int) -> bool:
    """Whether avg and sum / count differ for `count` values whose average lies just below a half of its last digit."""
    # The sum, in units of the last digit, whose quotient has the remainder that is nearest to a half from below.
    total = (count - 1) // 2 * pow(10**4, -1, count) % count
    unit = f"CAST({10**-scale:.{scale}f}BD AS DECIMAL(10,{scale}))"
    value = f"CAST(IF(id = 0, {total}, 0) * {unit} AS DECIMAL({precision},{scale}))"
    row = spark.sql(
        f"SELECT avg(x), CAST(sum(x) / count(x) AS DECIMAL({precision + 4},{scale + 4}))"
        f" FROM (SELECT {value} x FROM range({count}))"
    ).collect()[0]
    return bool(row[0] != row[1])


@pytest.mark.parametrize(("precision", "scale"), [(28, 8), (30, 10), (38, 18)])
def test_where_the_division_has_fewer_digits_the_average_is_not_its_sum_divided(
    spark: SparkSession, precision: int, scale: int
) -> None:
    assert division_scale(precision, scale) < scale + 4
    row = spark.sql(
        f"SELECT avg(x), sum(x) / count(x) FROM VALUES (CAST(1 AS DECIMAL({precision},{scale}))), (1), (0) t(x)"
    ).collect()[0]
    assert row[0] != row[1]


def test_sums_merged_into_a_table_stay_exact(spark: SparkSession) -> None:
    """NULL and NaN are found null-safely, decimal(38,0) adds up; decimal(38,18) does not, and must be summed."""
    spark.sql("CREATE TABLE s.sums (k DOUBLE, n BIGINT, whole DECIMAL(38,0), fine DECIMAL(38,18)) USING iceberg")
    fine = "CAST('0.123456789012345678' AS DECIMAL(38,18))"
    values = ", ".join(f"({k}, 1L, CAST({_MOST_LONG} AS DECIMAL(38,0)), {fine})" for k in ("NULL", _NAN))
    spark.sql(f"INSERT INTO s.sums VALUES {values}")
    merge = (
        "MERGE INTO s.sums t USING (SELECT * FROM VALUES {} d(k, n, whole, fine)) d ON t.k <=> d.k WHEN MATCHED THEN"
        " UPDATE SET n = t.n + d.n, whole = t.whole + d.whole, fine = t.fine + d.fine WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(merge.format(f"{values}, ({_ZERO}, 1L, CAST(5 AS DECIMAL(38,0)), {fine})"))
    spark.sql(merge.format(f"({_MINUS_ZERO}, 1L, CAST(-5 AS DECIMAL(38,0)), {fine})"))
    assert _format(spark.sql("SELECT k, n, whole, fine FROM s.sums").collect()) == Counter(
        (
            "(None, 2, Decimal('18446744073709551614'), Decimal('0.246913578024691360'))",
            "(nan, 2, Decimal('18446744073709551614'), Decimal('0.246913578024691360'))",
            "(0.0, 2, Decimal('0'), Decimal('0.246913578024691360'))",
        )
    )
    assert (
        spark.sql(f"SELECT sum(x) FROM VALUES ({fine}), ({fine}) t(x)").collect()[0][0]
        != spark.sql("SELECT max(fine) FROM s.sums").collect()[0][0]
    )


def _format(rows: Sequence[Sequence[Any]]) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in rows)
