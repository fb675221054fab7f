"""Which changes a query follows, table by table: linear in a table, or added up by its aggregates."""

from __future__ import annotations

import pytest

from sqb.plan.refresh.states import list_additive_operators
from sqb.sql.delta.proposal import count_reads, propose
from support.pieces import facts_of

TABLES = {
    "f": {"id": "bigint", "dk": "int", "ck": "int", "x": "bigint", "amount": "decimal(12,2)", "note": "string"},
    "d": {"dk": "int", "year": "int", "name": "string"},
    "c": {"ck": "int", "region": "string"},
}

LINEAR = [
    # The left side of a LEFT JOIN, whose right side did not change.
    ("SELECT f.id, d.name FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk = d.dk", {0}),
    (
        "SELECT f.id, c.region FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk = d.dk JOIN raw.c AS c ON f.ck = c.ck",
        {0, 2},
    ),
    ("SELECT f.id FROM raw.d AS d RIGHT JOIN raw.f AS f ON f.dk = d.dk", {1}),
    ("SELECT f.id FROM raw.f AS f FULL JOIN raw.d AS d ON f.dk = d.dk", set()),
    ("SELECT f.id FROM raw.f AS f LEFT SEMI JOIN raw.d AS d ON f.dk = d.dk", {0}),
    ("SELECT f.id FROM raw.f AS f LEFT ANTI JOIN raw.d AS d USING (dk)", {0}),
    # A subquery is read whole, for each row that changed.
    ("SELECT f.id FROM raw.f AS f WHERE f.dk IN (SELECT d.dk FROM raw.d AS d)", {0}),
    ("SELECT f.id FROM raw.f AS f WHERE f.dk NOT IN (SELECT d.dk FROM raw.d AS d) OR f.x > 3", {0}),
    ("SELECT f.id, (SELECT max(c.region) FROM raw.c AS c WHERE c.ck = f.ck) AS r FROM raw.f AS f", {1}),
    ("SELECT f.id FROM raw.f AS f WHERE f.x > (SELECT max(g.x) FROM raw.f AS g)", {0}),
    # What may come out differently when it is evaluated again.
    ("SELECT f.id FROM raw.f AS f WHERE f.x > (SELECT stddev(g.x) FROM raw.f AS g)", set()),
    ("SELECT f.id FROM raw.f AS f WHERE f.dk IN (SELECT d.dk FROM raw.d AS d ORDER BY d.year LIMIT 2)", set()),
    ("SELECT f.id FROM raw.f AS f JOIN (SELECT dk, row_number() OVER (ORDER BY year) AS n FROM raw.d) AS d", set()),
    # Groups and partitions mix rows.
    (
        "SELECT f.id, g.n FROM raw.f AS f JOIN (SELECT dk, count(*) AS n FROM raw.f GROUP BY dk) AS g ON f.dk = g.dk",
        {0},
    ),
    ("SELECT DISTINCT f.dk FROM raw.f AS f", set()),
    ("SELECT f.id, row_number() OVER (PARTITION BY f.dk ORDER BY f.id) AS n FROM raw.f AS f", set()),
    ("SELECT f.id FROM raw.f AS f ORDER BY f.id LIMIT 3", set()),
    # A table that is read twice is two tables; a CTE that is read twice is one.
    ("SELECT a.id FROM raw.f AS a JOIN raw.f AS b ON a.id = b.id", {0, 1}),
    ("WITH x AS (SELECT id FROM raw.f) SELECT a.id FROM x AS a JOIN x AS b ON a.id = b.id", set()),
    ("WITH x AS (SELECT id FROM raw.f) SELECT id FROM x WHERE id IN (SELECT id FROM x)", set()),
    ("WITH x AS (SELECT id FROM raw.f) SELECT id FROM x UNION ALL SELECT id + 1 FROM x", {0}),
    ("SELECT id FROM raw.f UNION ALL SELECT count(*) FROM raw.d", {0}),
    ("SELECT id FROM raw.f UNION SELECT dk FROM raw.d", set()),
    ("SELECT dk FROM raw.f EXCEPT ALL SELECT dk FROM raw.d", set()),
    # A change has a column more, which a star inside an expression would take for one of the row.
    ("SELECT *, f.x + 1 AS y FROM raw.f AS f", {0}),
    ("SELECT f.id, count(*) OVER () AS n, hash(*) AS h FROM raw.f AS f", set()),
    ("SELECT f.id, hash(*) AS h FROM raw.f AS f", set()),
    ("SELECT f.id, to_json(struct(d.*)) AS j FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk", set()),
    ("SELECT f.id FROM raw.f AS f WHERE xxhash64(*) > 0", set()),
    # The names of sqb's own.
    ("SELECT f.id AS __sqb_multiplicity FROM raw.f AS f", set()),
    ("SELECT `__SQB_K`.id FROM raw.f AS `__SQB_K`", set()),
    # The columns of a derived table get other names behind it; those of a table cannot.
    ("SELECT q.a FROM (SELECT id, x FROM raw.f) AS q (a, b)", {0}),
    ("SELECT q.a FROM raw.d AS q (a, b, c)", set()),
]


@pytest.mark.parametrize(("sql", "slots"), LINEAR, ids=[sql for sql, _ in LINEAR])
def test_linear(sql: str, slots: set[int]) -> None:
    assert set(facts_of(sql, TABLES)[1].linear_slots) == slots


ADDED_UP = [
    ("SELECT d.year, sum(f.amount) AS s FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk GROUP BY d.year", {0, 1}),
    ("SELECT upper(d.name) AS n, count(*) FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk = d.dk GROUP BY 1", {0, 1}),
    (
        "SELECT d.year AS y, avg(f.amount) FROM raw.f f, raw.d d WHERE f.dk = d.dk GROUP BY y HAVING count(*) > 1",
        {0, 1},
    ),
    ("SELECT count_if(x > 1), max(x), min(note), bool_and(x > 0) FROM raw.f", {0}),
    ("SELECT year, sum(x) FILTER (WHERE x > 1) / count(*) FROM raw.f JOIN raw.d USING (dk) GROUP BY ALL", {0, 1}),
    ("WITH b AS (SELECT dk, x FROM raw.f) SELECT dk, sum(x) FROM b GROUP BY dk ORDER BY dk", {0}),
    ("SELECT k, sum(x) FROM (SELECT dk AS k, x FROM raw.f UNION ALL SELECT ck, x FROM raw.f) GROUP BY k", {0, 1}),
    ("SELECT dk, count(DISTINCT x), count(*) FROM raw.f GROUP BY dk", {0}),
    ("SELECT dk, sum(x), grouping(dk), grouping_id() FROM raw.f GROUP BY ROLLUP (dk)", {0}),
    ("SELECT dk, ck, sum(x) FROM raw.f GROUP BY dk, GROUPING SETS ((ck), ())", {0}),
    ("SELECT dk, sum(x) FROM raw.f GROUP BY GROUPING SETS ((dk), (dk))", {0}),
    ("SELECT dk, ck, sum(x) FROM raw.f GROUP BY dk, ck WITH ROLLUP", {0}),
    ("SELECT dk, sum(x) FROM raw.f AS f GROUP BY GROUPING SETS ((dk), (f.dk))", set()),
    ("SELECT dk, sum(x), rank() OVER (ORDER BY sum(x)) FROM raw.f GROUP BY dk", {0}),
    ("SELECT dk, sum(x) FROM raw.f GROUP BY dk HAVING sum(x) > (SELECT max(year) FROM raw.d)", {0, 1}),
    ("SELECT sum(n) FROM (SELECT dk, count(*) AS n FROM raw.f GROUP BY dk)", {0}),
    # What does not add up, and what is not understood.
    ("SELECT dk, count(DISTINCT x), count(DISTINCT note) FROM raw.f GROUP BY dk", set()),
    ("SELECT dk, collect_set(x) FROM raw.f GROUP BY dk", set()),
    ("SELECT dk, stddev(x) FROM raw.f GROUP BY dk", set()),
    ("SELECT dk, sum(x) FROM raw.f GROUP BY dk LIMIT 3", set()),
    ("SELECT dk, sum(x) AS s FROM raw.f GROUP BY dk HAVING s > 1", set()),
    # HAVING means the sum, though there is a column of that name; the list means the column.
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk HAVING x > 1", set()),
    ("SELECT upper(note) AS note, sum(x) AS s FROM raw.f GROUP BY upper(note) HAVING sum(x) > 1", {0}),
    ("SELECT dk + 1 AS dk, sum(x) AS x FROM raw.f GROUP BY dk HAVING dk > 1", {0}),
    ("SELECT 5 AS five, count(*) FROM raw.f GROUP BY 1", set()),
    # Its figures would be those of another value when that changes.
    ("SELECT dk, sum(CASE WHEN x > (SELECT max(year) FROM raw.d) THEN 1 END) FROM raw.f GROUP BY dk", set()),
    ("SELECT sum(x) AS s, s + 1 AS t FROM raw.f GROUP BY dk", set()),
    ("SELECT id FROM raw.f", set()),
]


@pytest.mark.parametrize(("sql", "slots"), ADDED_UP, ids=[sql for sql, _ in ADDED_UP])
def test_added_up(sql: str, slots: set[int]) -> None:
    template, facts = facts_of(sql, TABLES)
    states = list_additive_operators(facts)

    def is_added_up(slot: int) -> bool:
        if facts.tree is None:
            return False
        proposal = propose(facts.tree, frozenset({slot}), states)
        return proposal.obstacle is None and proposal.rules[facts.tree.root].rule == "state"

    assert {slot for slot in range(len(template.names)) if is_added_up(slot)} == slots


RULES = [
    ("SELECT f.id FROM raw.f AS f NATURAL LEFT JOIN raw.d", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk < d.dk", 1, "rows"),
    ("SELECT f.id, d.year FROM raw.f AS f RIGHT JOIN raw.d AS d ON f.dk = d.dk", 0, "rows"),
    ("SELECT f.id, d.year FROM raw.f AS f FULL JOIN raw.d AS d ON f.dk = d.dk + 1", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.d AS d WHERE d.dk < f.dk)", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f WHERE f.dk NOT IN (SELECT dk FROM raw.d)", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f WHERE f.x > (SELECT max(year) FROM raw.d)", 1, "rows"),
    ("SELECT f.id, (SELECT count(*) FROM raw.d AS d WHERE d.dk = f.dk) AS n FROM raw.f AS f", 0, "rows"),
    ("SELECT dk, dk IN (SELECT dk FROM raw.d) FROM raw.f", 0, "rows"),
    ("SELECT f.id, f.dk IN (SELECT dk FROM raw.d) FROM raw.f AS f", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f WHERE f.dk + 1 IN (SELECT dk FROM raw.d)", 1, "rows"),
    ("SELECT f.id FROM raw.f AS f JOIN raw.c AS c ON f.ck = c.ck RIGHT JOIN raw.d AS d USING (dk)", 0, "rows"),
    ("SELECT dk FROM raw.f AS f FULL JOIN raw.d AS d USING (dk) FULL JOIN raw.d AS e USING (dk)", 2, "rows"),
    ("SELECT f.id FROM raw.f AS f JOIN raw.c AS c USING (ck) NATURAL LEFT JOIN raw.d AS d", 2, "rows"),
    ("SELECT id, sum(x) OVER w FROM raw.f WINDOW w AS (PARTITION BY dk)", 0, "partitions"),
    ("SELECT id, sum(x) OVER (PARTITION BY dk), max(x) OVER (PARTITION BY ck) FROM raw.f", 0, "partitions"),
    ("SELECT id, sum(x) OVER (PARTITION BY dk) > (SELECT max(year) FROM raw.d) FROM raw.f", 0, "partitions"),
    (
        "SELECT f.dk, sum(x) FROM raw.f AS f GROUP BY f.dk HAVING EXISTS (SELECT 1 FROM raw.d AS d WHERE d.dk = f.dk)",
        1,
        "groups",
    ),
    ("SELECT dk, sum(CASE WHEN x > (SELECT max(year) FROM raw.d) THEN 1 END) FROM raw.f GROUP BY dk", 0, "groups"),
    (
        "SELECT f.id FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.c AS c LEFT JOIN raw.d AS d ON c.ck = d.dk"
        " WHERE c.ck = f.ck AND d.dk IS NULL)",
        2,
        "rows",
    ),
    (
        "SELECT f.id FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.c AS c WHERE c.ck = f.ck"
        " AND NOT EXISTS (SELECT 1 FROM raw.d AS d WHERE d.dk = c.ck))",
        2,
        "rows",
    ),
    ("SELECT DISTINCT dk FROM raw.f", 0, "distinct"),
    ("SELECT dk FROM raw.f EXCEPT ALL SELECT dk FROM raw.d", 1, "distinct"),
    ("SELECT dk, stddev(x) FROM raw.f GROUP BY dk", 0, "groups"),
    ("SELECT dk, collect_list(x) FROM raw.f GROUP BY dk", 0, "groups"),
    ("SELECT id, row_number() OVER (PARTITION BY dk ORDER BY x) AS n, dk FROM raw.f", 0, "partitions"),
    (
        "SELECT id, sum(x) OVER (PARTITION BY dk, ck), max(x) OVER (PARTITION BY ck ORDER BY id) FROM raw.f",
        0,
        "partitions",
    ),
]


@pytest.mark.parametrize(("sql", "slot", "rule"), RULES, ids=[sql for sql, _, _ in RULES])
def test_rules_without_figures(sql: str, slot: int, rule: str) -> None:
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset({slot}), by_target=True)
    assert (proposal.obstacle, proposal.rules[facts.tree.root].rule) == (None, rule)


FROM_FIGURES = [
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk ORDER BY x DESC LIMIT 3", True),
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk ORDER BY 2 DESC NULLS LAST, dk LIMIT 3 OFFSET 2", True),
    ("WITH s AS (SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk) SELECT dk, first(x) OVER (ORDER BY dk) FROM s", True),
    # What the order is by is not shown, so that the order cannot be told of the result.
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk ORDER BY max(id) LIMIT 3", False),
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk ORDER BY x + 1 LIMIT 3", False),
    ("SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk ORDER BY 3 LIMIT 3", False),
    ("SELECT dk, x FROM raw.f ORDER BY x LIMIT 3", False),
    # One of the tables is read beside the figures.
    ("SELECT s.x FROM (SELECT dk, sum(x) AS x FROM raw.f GROUP BY dk) AS s JOIN raw.f AS f ON f.dk = s.dk", False),
]


@pytest.mark.parametrize(("sql", "is_read"), FROM_FIGURES, ids=[sql for sql, _ in FROM_FIGURES])
def test_results_that_are_read_from_figures(sql: str, is_read: bool) -> None:
    template, facts = facts_of(sql, TABLES)
    slots, states = frozenset(range(len(template.names))), list_additive_operators(facts)
    proposal = propose(facts.tree, slots, states, by_target=True) if facts.tree is not None else None
    assert (proposal is not None and proposal.reads_figures) == is_read
    if proposal is not None and "LIMIT" in sql:
        assert proposal.change_obstacle is not None and proposal.change_obstacle.why == "LIMIT"


OPAQUE = [
    (
        "SELECT dk, collect_list(x) AS c FROM raw.f GROUP BY dk + 1, dk",
        0,
        "collect_list() depends on the order of rows",
        "collect_list",
    ),
    ("SELECT count(*) AS n FROM raw.f", 0, "an aggregate over all rows", "SELECT"),
    ("SELECT id, rank() OVER (ORDER BY x) FROM raw.f", 0, "a window function without PARTITION BY", "SELECT"),
    (
        "SELECT f.id FROM raw.c AS c, raw.f AS f FULL JOIN raw.d AS d ON f.dk = d.dk",
        1,
        "FULL JOIN behind a comma",
        "__sqb_slot_1",
    ),
    (
        "SELECT f.id FROM raw.f AS f FULL JOIN raw.d AS d ON f.dk < d.dk",
        0,
        "FULL JOIN by something other than equal values",
        "__sqb_slot_0",
    ),
    # It is not known which of two columns is meant.
    (
        "SELECT f.id FROM raw.f AS f JOIN raw.c AS c ON f.ck = c.ck JOIN raw.d ON true RIGHT JOIN raw.d USING (dk)",
        0,
        "RIGHT JOIN without ON after what changed",
        "__sqb_slot_0",
    ),
    (
        "SELECT f.id FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk NATURAL LEFT JOIN raw.d AS e",
        2,
        "NATURAL LEFT JOIN whose right side changed",
        "__sqb_slot_2",
    ),
]


def test_queries_that_read_each_other_too_often_are_rebuilt() -> None:
    """Each CTE reads the one before it twice: Spark would plan every way through them."""

    def chain(depth: int) -> str:
        ctes = ["c0 AS (SELECT dk, x FROM raw.f)"]
        ctes += [
            f"c{i} AS (SELECT a.dk, b.x FROM c{i - 1} AS a JOIN c{i - 1} AS b ON a.dk = b.dk)" for i in range(1, depth)
        ]
        return f"WITH {', '.join(ctes)} SELECT dk, x FROM c{depth - 1}"

    few, many = facts_of(chain(6), TABLES)[1], facts_of(chain(20), TABLES)[1]
    assert few.tree is not None and many.tree is not None
    assert propose(few.tree, frozenset({0})).obstacle is None
    # The last text alone would read 64 tables.
    seven = facts_of(chain(7), TABLES)[1].tree
    assert seven is not None and count_reads(seven, propose(seven, frozenset({0}))) == (634, 64)
    assert propose(seven, frozenset({0})).obstacle is not None
    # Of a long UNION ALL nothing but changes is read.
    template, long = facts_of(" UNION ALL ".join(["SELECT id FROM raw.f"] * 200), TABLES)
    assert long.kind == "linear" and len(template.names) == 200
    obstacle = propose(many.tree, frozenset({0})).obstacle
    assert obstacle is not None and obstacle.why.startswith("to follow changes, tables would be read 5,242,874 times")


@pytest.mark.parametrize(("sql", "slot", "why", "place"), OPAQUE, ids=[case[0] for case in OPAQUE])
def test_obstacles_have_their_place(sql: str, slot: int, why: str, place: str) -> None:
    template, facts = facts_of(sql, TABLES)
    assert facts.tree is not None
    text = template.render(lambda index: f"__sqb_slot_{index}")
    obstacle = propose(facts.tree, frozenset({slot}), by_target=True).obstacle
    assert obstacle is not None and obstacle.why == why
    assert obstacle.offset is not None and text[obstacle.offset :].startswith(place)


def test_figures_that_changes_cannot_be_added_to_are_given_up() -> None:
    """What changes is then evaluated from rows: its figures are those of before, and would be read for ever."""
    sql = (
        "SELECT x.dk AS k, f.id FROM raw.f AS f JOIN (SELECT d.dk, count(*) AS n FROM raw.d AS d"
        " FULL JOIN raw.c AS c ON d.dk < c.ck GROUP BY d.dk) AS x ON f.dk = x.dk"
    )
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    states = list_additive_operators(facts)
    grouped = next(iter(states))
    assert propose(facts.tree, frozenset({0}), states).states == states
    proposal = propose(facts.tree, frozenset({1}), states)
    assert (proposal.rules[grouped].rule, proposal.states) == ("compare", frozenset())


def test_names_that_mean_a_field_of_a_struct() -> None:
    """`f.dk` would be a field of the column `f` where rows of `s` are read alone, as those that changed are."""
    sql = "SELECT f.id, s.dk FROM raw.f AS f LEFT JOIN raw.s AS s ON f.dk = s.dk"
    for kind, why in (
        ("struct<dk:int>", "names in the condition of a LEFT JOIN may mean other columns elsewhere"),
        ("int", None),
    ):
        facts = facts_of(sql, {**TABLES, "s": {"dk": "int", "f": kind}})[1]
        assert facts.tree is not None
        obstacle = propose(facts.tree, frozenset({1})).change_obstacle
        assert (obstacle.why if obstacle is not None else None) == why
