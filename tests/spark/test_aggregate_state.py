"""Groups that are brought up to date by adding up: on Spark, to the digit and the type what the query itself gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sqb.plan.refresh.states import list_additive_operators
from sqb.spark.data import aggregate_state
from sqb.sql.delta.classify import classify_query
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.evaluate import Evaluation
from sqb.sql.delta.proposal import propose
from sqb.sql.delta.rules.add_up import SIGN, render_all_figures
from sqb.sql.text.template import Template
from support.pieces import template_of
from support.spark_states import MemoryStates, make_evaluation

FACTS = "k int, x bigint, d decimal(12,2), w decimal(38,10), b boolean, s string, f double, t timestamp"
DIMS = "k int, name string, y int"
SCHEMAS = {
    name: dict(column.split(" ", 1) for column in columns.replace(", ", "|").replace("2|", "2, ").split("|"))
    for name, columns in (("f", FACTS), ("d", DIMS))
}
QUERIES = [
    """SELECT d.y, upper(d.name) || '!' AS n, count(*) AS c, sum(f.d) AS s, avg(f.d) AS a, max(f.s) AS m,
       count(f.x) FILTER (WHERE f.b) AS cx, bool_and(f.b) AS ba, some(f.b) AS bo, min(f.t) AS mt
       FROM raw.f AS f LEFT JOIN raw.d AS d ON f.k = d.k GROUP BY d.y, upper(d.name)""",
    """SELECT count(*) AS c, sum(f.d) / count(*) AS r, sum(CASE WHEN f.b THEN 1 ELSE 0 END) AS z, avg(f.k)
       FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k WHERE f.b HAVING count(*) > -1""",
    """SELECT y, sum(k) AS t, count_if(b), mean(k) FROM
       (SELECT f.k, d.y, f.b FROM raw.f AS f, raw.d AS d WHERE d.k = f.k UNION ALL SELECT k, 7, true FROM raw.d)
       GROUP BY 1 HAVING sum(k) > 2""",
    "SELECT s, sum(x), avg(x) FROM raw.f WHERE x < 100 GROUP BY ALL ORDER BY 1",
    "SELECT date_trunc('DAY', t) AS day, CASE WHEN b THEN 'x' ELSE s END AS v, sum(w) FROM raw.f GROUP BY 1, 2",
    "WITH a AS (SELECT *, k + 1 AS k1 FROM raw.f) SELECT k1, coalesce(sum(d), 0) + 1, min(d) FROM a GROUP BY k1",
    "SELECT sum(d), avg(d), max(x), count(s) FROM raw.f WHERE k = 99",
    # Sets of groups, distinct values, windows over groups, groups of groups, values beside groups.
    """SELECT d.y, d.name, sum(f.d), grouping(d.y) + grouping(d.name) AS g, grouping_id() AS i, max(f.s) AS m
       FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k GROUP BY ROLLUP (d.y, d.name)""",
    "SELECT k, s, count(*), count(DISTINCT x) FROM raw.f GROUP BY GROUPING SETS ((k), (s), (k, s), ())",
    "SELECT k, count(DISTINCT s, b) AS c, count(*) AS n, sum(d) AS t, max(x) AS m FROM raw.f GROUP BY k",
    "SELECT count(DISTINCT s) AS c, count(x) AS n, sum(x) AS t FROM raw.f WHERE k = 99",
    """SELECT k, sum(d), rank() OVER (PARTITION BY k IS NULL ORDER BY sum(d) DESC) AS r
       FROM raw.f GROUP BY k HAVING count(*) > 1""",
    "SELECT n, count(*), sum(t) FROM (SELECT s, count(*) AS n, sum(d) AS t FROM raw.f GROUP BY s) GROUP BY n",
    """WITH g AS (SELECT k, sum(d) AS t, count(*) AS n FROM raw.f GROUP BY k)
       SELECT k, t FROM g WHERE t >= (SELECT max(t) FROM g) OR n < 2""",
    "SELECT s, sum(d) AS t FROM raw.f GROUP BY s HAVING sum(d) > (SELECT sum(d) / 4 FROM raw.f)",
    # Without a row there is still one group.
    "SELECT count(*), sum(d) FROM raw.f WHERE k = 1234 GROUP BY ALL",
]


def _facts(random: Random, count: int) -> list[tuple[Any, ...]]:
    def row() -> tuple[Any, ...]:
        return (
            random.choice([1, 2, 3, 99, None]),
            random.choice([None, 1, 5, -3, 7]),
            random.choice([None, Decimal(random.randint(-99999, 99999)) / 100]),
            random.choice([None, Decimal(random.randint(-(10**12), 10**12)) / 10**10]),
            random.choice([True, False, None]),
            random.choice(["a", "b", "${env:HOME}", "", None, "é\n'\"`"]),
            0.5,
            None,
        )

    return [row() for _ in range(count)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


class World:
    """A table of facts before and after a change, and a dimension."""

    def __init__(self, spark: SparkSession, stack: ExitStack, seed: int, removes: bool) -> None:
        self.spark, self.stack = spark, stack
        random = Random(seed)
        old, added = _facts(random, 60), _facts(random, 15)
        removed = [row for row in old if removes and random.random() < 0.25]
        new = list((Counter(old) - Counter(removed) + Counter(added)).elements())
        for name, rows in (("old", old), ("new", new), ("added", added), ("removed", removed)):
            spark.createDataFrame(rows, FACTS).createOrReplaceTempView(f"facts_{name}")
        dims = [(1, "one", 2020), (2, "two", 2020), (3, None, 2021)]
        spark.createDataFrame(dims, DIMS).createOrReplaceTempView("dims")

    def fills(self, template: Template, version: str) -> dict[int, str]:
        return {i: f"facts_{version}" if name == "f" else "dims" for i, name in enumerate(template.names)}

    def run(self, template: Template, version: str) -> DataFrame:
        fills = self.fills(template, version)
        return self.spark.sql(template.render(lambda i: fills[i]))

    def evaluate(self, sql: str) -> tuple[Evaluation, MemoryStates]:
        """How a change of the facts is followed, with the figures of groups in memory."""
        template = template_of(sql)
        facts = classify_query(template, [SCHEMAS[name] for name in template.names])
        assert facts.tree is not None
        slots = frozenset(i for i, name in enumerate(template.names) if name == "f")
        proposal = propose(facts.tree, slots, list_additive_operators(facts))
        assert proposal.obstacle is None and proposal.uses_states
        return make_evaluation(self.spark, template, facts.tree, proposal, self.stack)


def _rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("removes", [False, True])
def test_groups_add_up(spark: SparkSession, stack: ExitStack, sql: str, removes: bool) -> None:
    world, template = World(spark, stack, len(sql), removes), template_of(sql)
    evaluation, _ = world.evaluate(sql)
    then, now = world.run(template, "old"), world.run(template, "new")
    columns = [f"c{i}" for i in range(len(now.columns))]
    root = evaluation.tree.root
    first = evaluation.get_frame(root, "old")
    assert [f.dataType for f in first.schema] == [f.dataType for f in then.schema]
    assert _rows(first) == _rows(then)
    result = _rows(then.toDF(*columns))
    for row in evaluation.compute_change().collect():
        result[tuple(row)[:-1]] += row[-1]
    assert +result == _rows(now.toDF(*columns)) and min(result.values(), default=0) >= 0
    assert _rows(evaluation.get_frame(root, "new")) == _rows(now)


def test_groups_whose_extreme_left_are_computed_again(spark: SparkSession, stack: ExitStack) -> None:
    world = World(spark, stack, 5, True)
    evaluation, states = world.evaluate(
        "SELECT d.y, max(f.d), min(f.s) FROM raw.f f JOIN raw.d d ON f.k = d.k GROUP BY d.y"
    )
    evaluation.compute_change().collect()
    assert states.redone


def test_groups_of_rewritten_rows_that_come_out_even_are_not_touched(spark: SparkSession, stack: ExitStack) -> None:
    """A file that is rewritten for one row holds rows of many groups."""
    world, half = World(spark, stack, 7, False), Decimal("0.50")
    rows = [(k, 1, half, half, True, s, 0.5, None) for k, s in ((1, "a"), (1, "b"), (2, "a"), (None, "c"))]
    changed = [*rows[1:], (1, 2, half, half, True, "a", 0.5, None)]
    for version, listed in (("old", rows), ("new", changed)):
        spark.createDataFrame(listed, FACTS).createOrReplaceTempView(f"facts_{version}")
    for sql, touched in (
        ("SELECT k, count(*), sum(x), avg(d) FROM raw.f GROUP BY k", [(1,)]),
        # The number of rows and the sum of other values stay what they were.
        ("SELECT k, count(*), sum(d) FROM raw.f GROUP BY k", []),
        ("SELECT s, count(DISTINCT x), count(*) FROM raw.f GROUP BY s", [("a", 1), ("a", 2)]),
        ("SELECT count(*), sum(d) FROM raw.f", [()]),
        # A NULL that is added says nothing of the sum.
        ("SELECT k, sum(CASE WHEN s = 'c' THEN CAST(NULL AS INT) ELSE x END) FROM raw.f GROUP BY k", [(1,), (None,)]),
    ):
        evaluation, states = world.evaluate(sql)
        evaluation.compute_change().collect()
        keys = states.get_design(evaluation.tree.root).keys
        result = states.get_change(evaluation.tree.root).delta.select(*keys).collect()
        assert Counter(map(tuple, result)) == Counter(touched), sql


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k, sum(f) FROM raw.f GROUP BY k", "a sum of type double depends on the order of rows"),
        ("SELECT k, avg(f) FROM raw.f GROUP BY k", "a sum of type double depends on the order of rows"),
    ],
)
def test_what_does_not_add_up(spark: SparkSession, stack: ExitStack, sql: str, why: str) -> None:
    evaluation, states = World(spark, stack, 1, False).evaluate(sql)
    with pytest.raises(NotProven) as refused:
        states.get_design(evaluation.tree.root)
    assert refused.value.why == why


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT f, count(*) FROM raw.f GROUP BY f", "a group of type double"),
        ("SELECT k % 2Y, count(*) FROM raw.f GROUP BY CAST(k AS TINYINT), k % 2Y", "a group of type tinyint"),
    ],
)
def test_what_no_table_would_hold(spark: SparkSession, stack: ExitStack, sql: str, why: str) -> None:
    evaluation, states = World(spark, stack, 1, False).evaluate(sql)
    root = evaluation.tree.root
    state = spark.sql(render_all_figures(evaluation, root, states.get_design(root)))
    assert aggregate_state.find_unfit_column(state.drop(SIGN), states.get_design(root)) == why


def test_an_average_of_large_numbers_is_not_added_up(spark: SparkSession, stack: ExitStack) -> None:
    world = World(spark, stack, 1, False)
    large = "SELECT 1 AS k, explode(array(9007199254740993L, 1L)) AS x"
    for version in ("old", "new"):
        spark.sql(large).createOrReplaceTempView(f"facts_{version}")
    evaluation, states = world.evaluate("SELECT k, avg(x) FROM raw.f GROUP BY k")
    design = states.get_design(evaluation.tree.root)
    state = spark.sql(render_all_figures(evaluation, evaluation.tree.root, design))
    with pytest.raises(Exception, match="sqb:") as refused:
        aggregate_state.check_exact(state, design).collect()
    assert aggregate_state.explain_refused(refused.value) == "an average over numbers too large to add up exactly"
