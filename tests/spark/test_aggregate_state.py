"""Groups that are brought up to date by adding up: on Spark, to the digit and the type what the query itself gives."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sqb.build.incremental.group_state import GroupedQuery, NoGroupState, prepare_grouped_query
from sqb.spark.data import aggregate_state, changes
from sqb.sql.text.template import Template
from support.pieces import template_of

FACTS = "k int, x bigint, d decimal(12,2), w decimal(38,10), b boolean, s string, f double, t timestamp"
DIMS = "k int, name string, y int"
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


class World:
    """A table of facts before and after a change, and a dimension."""

    def __init__(self, spark: SparkSession, seed: int, removes: bool) -> None:
        self.spark = spark
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

    def prepare(self, template: Template) -> GroupedQuery:
        fills = self.fills(template, "new")
        slots: Any = [
            SimpleNamespace(index=i, now=text, state=SimpleNamespace(columns=())) for i, text in fills.items()
        ]
        return prepare_grouped_query(self.spark, template, slots)


def _rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("removes", [False, True])
def test_groups_add_up(spark: SparkSession, sql: str, removes: bool) -> None:
    world, template = World(spark, len(sql), removes), template_of(sql)
    grouped = world.prepare(template)
    then, now = world.run(template, "old"), world.run(template, "new")
    columns = [f"c{i}" for i in range(len(now.columns))]
    state = spark.sql(grouped.render_state(world.fills(template, "old")))
    first = aggregate_state.read_result(spark, aggregate_state.check_exact(state, grouped.design), grouped.design, "v")
    assert [f.dataType for f in first.schema] == [f.dataType for f in then.schema]
    assert _rows(first) == _rows(then)
    facts = template.names.index("f")
    signs = (("added", 1), ("removed", -1))
    terms = [(spark.sql(grouped.render_term(facts, world.fills(template, v))), sign) for v, sign in signs]
    change = aggregate_state.StateChange(state, aggregate_state.add_up(terms, grouped.design), grouped.design)
    try:
        touched = spark.createDataFrame(change.compute_touched().collect(), state.schema)
    except Exception as error:
        # The extreme value of a group left: only a look at its rows could tell the next one.
        assert removes and aggregate_state.explain_refused(error) == "the smallest or largest value of a group left"
        assert any(word in sql for word in ("max(", "min("))
        return
    assert _rows(aggregate_state.read_result(spark, change.compute_state(touched), grouped.design, "v")) == _rows(now)
    result = _rows(then.toDF(*columns))
    for row in changes.sum_changes(change.compute_result_change(spark, touched, columns), columns).collect():
        result[tuple(row)[:-1]] += row[-1]
    assert +result == _rows(now.toDF(*columns)) and min(result.values(), default=0) >= 0


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k, sum(f) FROM raw.f GROUP BY k", "a sum of type double depends on the order of rows"),
        ("SELECT k, avg(f) FROM raw.f GROUP BY k", "a sum of type double depends on the order of rows"),
    ],
)
def test_what_does_not_add_up(spark: SparkSession, sql: str, why: str) -> None:
    with pytest.raises(NoGroupState) as refused:
        World(spark, 1, False).prepare(template_of(sql))
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT f, count(*) FROM raw.f GROUP BY f", "a group of type double"),
        ("SELECT k % 2Y, count(*) FROM raw.f GROUP BY CAST(k AS TINYINT), k % 2Y", "a group of type tinyint"),
    ],
)
def test_what_no_table_would_hold(spark: SparkSession, sql: str, why: str) -> None:
    world, template = World(spark, 1, False), template_of(sql)
    grouped = world.prepare(template)
    state = spark.sql(grouped.render_state(world.fills(template, "old")))
    assert aggregate_state.find_unfit_column(state, grouped.design) == why


def test_an_average_of_large_numbers_is_not_added_up(spark: SparkSession) -> None:
    spark.sql("SELECT 1 AS k, explode(array(9007199254740993L, 1L)) AS x").createOrReplaceTempView("large")
    template = template_of("SELECT k, avg(x) FROM raw.f GROUP BY k")
    slot: Any = SimpleNamespace(index=0, now="large", state=SimpleNamespace(columns=()))
    grouped = prepare_grouped_query(spark, template, [slot])
    state = aggregate_state.check_exact(spark.sql(grouped.render_state({0: "large"})), grouped.design)
    with pytest.raises(Exception, match="sqb:") as refused:
        state.collect()
    assert aggregate_state.explain_refused(refused.value) == "an average over numbers too large to add up exactly"
