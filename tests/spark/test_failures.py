"""What Spark says, as a person reads it: the words, the hint and the place in the SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sqb.spark.errors import SparkFailure, explain_failure


@pytest.fixture(scope="module", autouse=True)
def table(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TABLE s.fails AS SELECT 1 AS a, 'x' AS b")


def failure(spark: SparkSession, sql: str) -> SparkFailure:
    with pytest.raises(Exception) as raised:
        spark.sql(sql).collect()
    return explain_failure(raised.value, sql)


CASES = {
    "SELECT aa FROM s.fails": ('unknown column "aa"', "aa", 'did you mean "a" or "b"?'),
    "SELECT\n  a,\n  f.bb\nFROM s.fails f": ('unknown column "f.bb"', "f.bb", 'did you mean "f.b" or "f.a"?'),
    "SELECT 1 FROM s.missing": ('there is no table or view "s.missing"', "s.missing", None),
    "SELECT nope(a) FROM s.fails": ('unknown function "nope"', "nope(a)", None),
    "SELECT a FROM s.fails x JOIN s.fails y ON x.a = y.a": (
        'the column "a" is ambiguous: it could be "x.a" or "y.a"',
        "a",
        "write the table's name or alias before it",
    ),
    "SELECT a, b FROM s.fails GROUP BY a": (
        '"b" is neither in GROUP BY nor inside an aggregate',
        "",
        "add it to GROUP BY, aggregate it, or write any_value(b) if any value will do",
    ),
    "SELECT 1 / (a - 1) FROM s.fails": ("division by zero", "1 / (a - 1)", "try_divide returns NULL instead"),
    "SELECT CAST(b AS INT) FROM s.fails": (
        "the value 'x' is not a valid INT",
        "CAST(b AS INT)",
        "try_cast returns NULL instead",
    ),
    "SELECT CAST(3000000000 AS INT)": (
        "the value 3000000000 does not fit into INT",
        "",
        "try_cast returns NULL instead",
    ),
    "SELECT a FROM s.fails\nORDER BY": ("syntax error at or near 'ORDER'", "ORDER", None),
    "SELECT '😀', zz FROM s.fails": ('unknown column "zz"', "zz", 'did you mean "a" or "b"?'),
    "SELECT z.q FROM (SELECT struct(1 AS w) AS z)": ('no field is called "q"', "z.q", "the fields are w"),
    "SELECT raise_error('stop here')": ("stop here", "", None),
    "SELECT (SELECT id FROM range(2))": (
        "More than one row returned by a subquery used as an expression",
        "(",
        None,
    ),
}


@pytest.mark.parametrize("sql", CASES)
def test_words_place_and_hint(spark: SparkSession, sql: str) -> None:
    message, fragment, hint = CASES[sql]
    error = failure(spark, sql)
    place = sql[error.start : error.stop] if error.start >= 0 else ""
    assert (error.message, place, error.hint, error.kind) == (message, fragment, hint, "query")
    assert error.condition


def test_other_conditions_lose_their_dumps_and_plans(spark: SparkSession) -> None:
    error = failure(spark, "SELECT explode(b) FROM s.fails")
    assert error.condition == "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"
    for noise in ("==", "SQLSTATE", "\n", "Project", "org.apache"):
        assert noise not in error.message


def test_a_failure_while_writing_has_its_place_too(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TABLE s.fails_out (v BIGINT)")
    sql = "SELECT CAST(b AS BIGINT) AS v FROM s.fails"
    with pytest.raises(Exception) as raised:
        spark.sql(sql).writeTo("s.fails_out").append()
    text = explain_failure(raised.value, sql)
    assert sql[text.start : text.stop] == "CAST(b AS BIGINT)"


def test_a_python_function_that_fails(spark: SparkSession) -> None:
    spark.udf.register("broken", lambda value: value / 0, "int")
    assert failure(spark, "SELECT broken(a) FROM s.fails").message == (
        "a Python function failed: ZeroDivisionError: division by zero"
    )
