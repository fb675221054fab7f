"""The table of Spark's functions and the rules of operators, held against Spark."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sqb.sql.columns.functions.operators import Misfit, find_operator_type
from sqb.sql.columns.functions.result_types import RULES
from sqb.sql.columns.functions.spark_functions import TABLE
from sqb.types import model as m
from sqb.types.format import format_sql_type
from sqb.types.model import ArrayType, DecimalType, MapType, Type, iter_parts
from sqb.types.spark_json import from_json_type

FUNCTIONS = [line.split(" ", 2) for line in TABLE.splitlines()]
KINDS: list[Type] = [
    m.BOOLEAN,
    m.INT,
    m.DOUBLE,
    DecimalType(10, 2),
    m.STRING,
    m.BINARY,
    m.DATE,
    m.TIMESTAMP,
    ArrayType(m.INT),
    MapType(m.STRING, m.INT),
]


def explain(spark: SparkSession, query: str) -> str:
    """What Spark makes of a query, its refusal included: EXPLAIN raises nothing."""
    return "\n".join(row[0] for row in spark.sql(f"EXPLAIN EXTENDED {query}").collect())


def test_functions_take_the_numbers_of_arguments_that_spark_says(spark: SparkSession) -> None:
    wrong = []
    for name, counts, _ in FUNCTIONS:
        numbers = [int(n) for n in counts.rstrip("+").split(",")]
        tried = {numbers[0]: True, numbers[-1]: True} | ({} if counts.endswith("+") else {numbers[-1] + 1: False})
        for number, is_taken in tried.items():
            text = explain(spark, f"SELECT {name}({', '.join(['NULL'] * number)}) AS r")
            if ("[WRONG_NUM_ARGS" in text) == is_taken:
                wrong.append((name, number, is_taken))
    assert wrong == []


@pytest.mark.parametrize("operator", ["=", "<", "+", "-", "*", "/"])
def test_operands_that_are_refused_are_refused_by_spark(spark: SparkSession, operator: str) -> None:
    accepted = []
    for left, right in product(KINDS, KINDS):
        try:
            find_operator_type(operator, [left, right])
        except Misfit:
            one, other = (f"CAST(NULL AS {format_sql_type(kind)})" for kind in (left, right))
            if "[DATATYPE_MISMATCH" not in explain(spark, f"SELECT {one} {operator} {other} AS r"):
                accepted.append((str(left), str(right)))
    assert accepted == []


_OVER = frozenset(
    ["lag", "lead", "nth_value", "row_number", "rank", "dense_rank", "ntile", "cume_dist", "percent_rank"]
)
# They need more than arguments of these types: GROUP BY, a lambda, or texts that are literals.
_APART = frozenset(
    ["grouping", "grouping_id", "filter", "array_sort", "map_filter", "java_method", "reflect", "listagg", "string_agg"]
)
_FEW: list[Type] = [m.INT, m.BIGINT, m.DOUBLE, DecimalType(10, 2), m.STRING, m.DATE, ArrayType(m.INT)]
_ALL: list[list[Type]] = [[], [*KINDS, m.BIGINT, ArrayType(ArrayType(m.INT))], [*_FEW, MapType(m.STRING, m.INT)]]


def test_results_have_the_types_that_spark_says(spark: SparkSession) -> None:
    counts = {name: {int(n) for n in numbers.rstrip("+").split(",")} for name, numbers, _ in FUNCTIONS}
    wrong, compared = [], 0
    for name, rule in RULES.items():
        if name in _APART:
            continue
        combinations = [
            list(kinds) for n in (0, 1, 2) if n in counts.get(name, ()) for kinds in product(*[_ALL[n]] * n)
        ]
        for kinds in combinations:
            try:
                ours = rule(kinds)
            except Misfit:
                continue
            if ours == m.UNKNOWN or m.UNKNOWN in iter_parts(ours):
                continue
            arguments = ", ".join(f"CAST(NULL AS {format_sql_type(kind)})" for kind in kinds)
            over = " OVER (ORDER BY 1)" if name in _OVER else ""
            try:
                schema = spark.sql(f"SELECT `{name}`({arguments}){over} AS r").schema
            except AnalysisException:
                continue
            compared += 1
            if from_json_type(schema[0].dataType.jsonValue()) != ours:
                wrong.append((name, [str(kind) for kind in kinds], str(ours), schema[0].dataType.simpleString()))
    assert wrong == [] and compared > 500
