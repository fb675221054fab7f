"""The figures that are kept for groups: what is computed from rows, and what the rows of a result are made of."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.plan.refresh.states import list_additive_operators
from sqb.sql.delta.aggregates.state_design import SAMPLE, StateDesign, design_state
from support.pieces import facts_of

TABLES = {"f": {"id": "int", "dk": "int", "x": "int"}, "d": {"dk": "int", "year": "int"}}
FROM = "FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk"


def design(sql: str, types: Mapping[str, str] | None = None) -> StateDesign:
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    (operator,) = list_additive_operators(facts)
    block = facts.tree.operators[operator].block
    assert block is not None and block.aggregation is not None
    return design_state(block.aggregation, types or {})


def test_what_a_query_groups_by_is_read_from_the_groups() -> None:
    # A sample of a row would have Spark sort all rows, where it can hash them.
    state = design(f"SELECT D.year, count(*) AS n, d.year + 1 AS next {FROM} GROUP BY d.year HAVING d.year > 2000")
    assert not state.samples
    assert SAMPLE not in state.render_list()
    assert state.render_result("s") == "SELECT g0 AS r0, (c0) AS r1, g0 + 1 AS r2 FROM s AS __sqb_t WHERE g0 > 2000"


def test_an_expression_that_is_a_group_is_read_as_a_whole() -> None:
    state = design(f"SELECT f.x  %  10 AS digit, count(*) AS n {FROM} GROUP BY f.x % 10")
    assert state.render_result("s") == "SELECT g0 AS r0, (c0) AS r1 FROM s"


def test_a_column_within_a_group_is_that_of_any_row() -> None:
    state = design(f"SELECT (f.x % 10) * 2 AS twice, count(*) AS n {FROM} GROUP BY f.x % 10")
    assert state.aggregation.columns == ("f.x",)
    assert f"any_value(named_struct('s0', f.x)) AS {SAMPLE}" in state.render_list()


def test_short_whole_numbers_are_added_as_spark_adds_them() -> None:
    sql = f"SELECT sum(f.x) AS s {FROM} GROUP BY d.year"
    short = design(sql, {"t0": "bigint", "u0": "bigint", "v0": "int"})
    assert "CAST(sum(f.x) AS DECIMAL(38,0)) AS c0," in short.render_list()
    long = design(sql, {"t0": "bigint", "u0": "bigint", "v0": "bigint"})
    assert "CAST(sum(CAST((f.x) AS DECIMAL(38,0))) AS DECIMAL(38,0)) AS c0," in long.render_list()
