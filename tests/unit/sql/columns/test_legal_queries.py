"""What Spark accepts passes without an error: TPC-H, TPC-DS, random queries, and forms that look like mistakes.

test_spark_queries.py asks the same of the queries in Spark's own tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from sqb.sql.analysis.parse import read_query_with_outline
from sqb.sql.columns.evaluate import QueryColumns, evaluate_query
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.sources import NamedColumn
from sqb.types.parse import parse_type
from support.columns import read_tables
from support.random_queries import TABLES as RANDOM_TABLES
from support.random_queries import QueryMaker
from support.tpc import BENCHMARKS, read_queries, read_schemas

TABLES = read_tables(
    orders="""
        id bigint, customer int, amount decimal(10,2), day date, at timestamp, tags array<string>,
        info struct<a:int,b:string>, lines array<struct<sku:string,n:int>>, attrs map<string,int>, ok boolean,
        note string
    """,
    customers="id int, name string, day date",
)
LEGAL = Path(__file__).with_name("legal_queries.txt").read_text(encoding="utf-8").splitlines()


def evaluate(sql: str, tables: Mapping[str, Sequence[NamedColumn]]) -> QueryColumns:
    query, outline = read_query_with_outline(sql, {})
    return evaluate_query(outline, {s.start: tables.get(s.name.lower()) for s in query.slots}, Signatures())


@pytest.mark.parametrize("sql", LEGAL)
def test_legal_forms_pass(sql: str) -> None:
    assert evaluate(sql, TABLES).problems == ()


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_queries_of_the_tpc_pass_and_all_their_columns_are_known(benchmark: str) -> None:
    schemas = read_schemas(benchmark).items()
    tables = {f"raw.{name}": [(c, kind) for c, t in cs.items() if (kind := parse_type(t))] for name, cs in schemas}
    for query in read_queries(benchmark):
        result = evaluate(query.sql, tables)
        assert (result.problems, result.is_open) == ((), False), query.name


def test_random_queries_pass() -> None:
    tables = {name: [(c, kind) for c, t in cs.items() if (kind := parse_type(t))] for name, cs in RANDOM_TABLES.items()}
    for seed in range(150):
        sql = QueryMaker(Random(seed)).make().sql
        result = evaluate(sql, tables)
        assert (result.problems, result.is_open) == ((), False), sql
