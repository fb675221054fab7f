"""Every (query, changed table) pair of TPC-H and TPC-DS: followed, or why not. The list may only grow."""

from __future__ import annotations

from support.tpc import read_queries, read_schemas
from support.tpc_coverage import classify_benchmarks, compare, read_coverage


def test_what_is_followed_may_only_grow() -> None:
    differences = compare(read_coverage(), classify_benchmarks())
    lost = [str(difference) for difference in differences if difference.is_lost]
    assert not lost, "these changes are no longer followed"
    listed = [str(difference) for difference in differences]
    assert not listed, "tests/tpc/coverage.yml is not what the code does: python scripts/tpc_coverage.py --write"


def test_final_orders_are_cut_and_inner_ones_are_not() -> None:
    queries = {f"{q.benchmark} {q.name}": q.sql.upper() for b in ("tpch", "tpcds") for q in read_queries(b)}
    assert len(queries) == 22 + 99
    assert "ORDER BY" not in queries["tpch q01"] and "LIMIT" not in queries["tpch q03"]
    # Windows have an order of their own.
    assert "ORDER BY" in queries["tpcds q49"]


def test_every_table_is_read_by_a_query() -> None:
    for benchmark in ("tpch", "tpcds"):
        read = {table for query in read_queries(benchmark) for table in query.tables}
        assert read == set(read_schemas(benchmark))
