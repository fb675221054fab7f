"""The table of Spark's functions and the rules of operators, held against Spark."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import SparkSession

from sqb.sql.analysis.parse import read_query_with_outline
from sqb.sql.columns.evaluate import evaluate_query
from sqb.sql.columns.functions.operators import Misfit, find_operator_type
from sqb.sql.columns.functions.refused_types import REFUSED
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.functions.spark_functions import TABLE
from sqb.types import model as m
from sqb.types.format import format_sql_type
from sqb.types.model import ArrayType, DecimalType, Field, MapType, StructType, Type
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


FAMILIES = {
    "boolean": [m.BOOLEAN],
    "number": [m.TINYINT, m.INT, m.BIGINT, m.FLOAT, m.DOUBLE, DecimalType(10, 2)],
    "string": [m.STRING],
    "binary": [m.BINARY],
    "date": [m.DATE],
    "timestamp": [m.TIMESTAMP, m.TIMESTAMP_NTZ],
    "array": [ArrayType(m.INT), ArrayType(m.STRING), ArrayType(ArrayType(m.INT)), ArrayType(m.BINARY)],
    "map": [MapType(m.STRING, m.INT), MapType(m.INT, ArrayType(m.STRING))],
    "struct": [StructType((Field("a", m.INT),)), StructType((Field("a", m.STRING), Field("b", ArrayType(m.INT))))],
}


def test_single_arguments_that_are_refused_are_refused_by_spark(spark: SparkSession) -> None:
    accepted = []
    for name, families in sorted(REFUSED.items()):
        for kind in (kind for family in families for kind in FAMILIES[family]):
            text = explain(spark, f"SELECT {name}(c) AS r FROM (SELECT CAST(NULL AS {format_sql_type(kind)}) AS c)")
            if "[DATATYPE_MISMATCH" not in text:
                accepted.append((name, str(kind)))
    assert accepted == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_negative_and_no_elements_is_refused_by_spark(spark: SparkSession, kind: Type) -> None:
    value = f"c FROM (SELECT CAST(NULL AS {format_sql_type(kind)}) AS c)"
    for operator, query in (("neg", f"SELECT -{value}"), ("[]", f"SELECT {value.replace('c FROM', 'c[0] AS r FROM')}")):
        try:
            find_operator_type(operator, [kind, m.INT] if operator == "[]" else [kind])
        except Misfit:
            text = explain(spark, query)
            assert "[DATATYPE_MISMATCH" in text or "[INVALID_EXTRACT" in text, (operator, text)


CALLS = """
sum(1) sum(1.5) sum(1D) avg(1) min('a') max(1L) any_value(1) mode('x') max_by('a', 1) collect_list(1)
collect_set('a') bit_and(1) bit_or(1L) bit_xor(1) median(1) median(1.5) string_agg('a', ',') listagg('a')
coalesce(1, 2L) greatest(1, 2.5) nullif(1, 2) nullifzero(1) nvl2(1, 2, 3L) if(true, 1, 2L) array(1, 2L)
array_repeat('a', 2) array_distinct(array(1)) sort_array(array('a')) array_compact(array(1))
slice(array(1), 1, 1) shuffle(array(1)) array_union(array(1), array(2)) array_except(array(1), array(2))
array_intersect(array('a'), array('b')) array_append(array(1), 2) array_prepend(array(1), 2)
array_remove(array(1), 2) array_insert(array(1), 1, 2) abs(-1) abs(1.5D) round(1) round(1L) round(1.5D)
round(1F) bround(2) mod(5, 3) mod(5L, 3L) pmod(5, 3) element_at(array(1), 1) element_at(map('a', 1L), 'a')
try_element_at(array('a'), 1) get(array(1D), 0) array_max(array(1)) array_min(array('a'))
flatten(array(array(1))) map_keys(map('a', 1)) map_values(map('a', 1)) map_from_arrays(array('a'), array(1))
map_filter(map('a', 1), (k,v)->v>0) ceil(1.5D) ceiling(1) floor(1L) sequence(1, 3) sequence(1L, 3L)
sequence(date'2024-01-01',date'2024-01-02') reverse('ab') reverse(array(1)) decode(x'41','UTF-8')
concat('a','b') int('1') bigint('1') smallint('1') tinyint('1') float('1') double('1') boolean('true')
binary('a') date('2024-01-01') timestamp('2024-01-01') decimal('1') schema_of_json('{}') schema_of_csv('1')
make_timestamp_ntz(1,1,1,1,1,1) make_timestamp_ltz(1,1,1,1,1,1) try_make_timestamp_ntz(1,1,1,1,1,1)
xpath('<a/>','a') xpath_string('<a/>','a') xpath_int('<a/>','a') xpath_long('<a/>','a')
xpath_short('<a/>','a') xpath_double('<a/>','a') xpath_number('<a/>','a') xpath_float('<a/>','a')
xpath_boolean('<a/>','a') is_variant_null(parse_json('null')) schema_of_variant(parse_json('1'))
row_number()OVER(ORDER/**/BY/**/1) rank()OVER(ORDER/**/BY/**/1) dense_rank()OVER(ORDER/**/BY/**/1)
ntile(2)OVER(ORDER/**/BY/**/1) cume_dist()OVER(ORDER/**/BY/**/1) percent_rank()OVER(ORDER/**/BY/**/1)
"""
_AGGREGATES = (
    *("sum", "avg", "min", "max", "any_value", "mode", "max_by", "collect_list", "collect_set", "median"),
    *("bit_and", "bit_or", "bit_xor", "string_agg", "listagg"),
)


def list_calls() -> list[str]:
    """The calls above: a space outside of brackets ends one."""
    calls, depth, call = [], 0, ""
    for character in CALLS:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character.isspace() and depth == 0:
            calls += [call] if call else []
            call = ""
        else:
            call += character
    return calls


def test_results_have_the_types_that_spark_says(spark: SparkSession) -> None:
    calls = list_calls()
    aggregates = [c for c in calls if c.partition("(")[0] in _AGGREGATES]
    wrong, unknown = [], []
    # One query for the calls of each sort: an analysis takes longer than all that it is of.
    for group in (aggregates, [c for c in calls if c not in aggregates]):
        sql = f"SELECT {', '.join(f'{call} AS c{i}' for i, call in enumerate(group))}"
        _, outline = read_query_with_outline(sql, {})
        ours = [kind for _, kind in evaluate_query(outline, {}, Signatures()).columns]
        theirs = [from_json_type(field.dataType.jsonValue()) for field in spark.sql(sql).schema]
        wrong += [(c, str(a), str(b)) for c, a, b in zip(group, ours, theirs, strict=True) if a not in (b, m.UNKNOWN)]
        unknown += [c for c, a in zip(group, ours, strict=True) if a == m.UNKNOWN]
    assert wrong == []
    assert len(unknown) < 15, unknown
