"""For each rule and each way of a place a few queries in which nothing hides a mistake, over `random_queries.TABLES`.

A mutant of a rule is tried on the queries of that rule first.
"""

from __future__ import annotations

PLAIN: dict[str, tuple[str, ...]] = {
    "changes": ("SELECT f.k AS x0, f.g AS x1 FROM raw.f AS f",),
    "union": ("SELECT f.k AS x0 FROM raw.f AS f UNION ALL SELECT e.g AS x0 FROM raw.e AS e",),
    "distinct": (
        "SELECT DISTINCT f.k AS x0, f.g AS x1 FROM raw.f AS f",
        "SELECT a.k AS x0 FROM raw.a AS a UNION SELECT b.k AS x0 FROM raw.b AS b",
        "SELECT f.k AS x0 FROM raw.f AS f EXCEPT SELECT e.g AS x0 FROM raw.e AS e",
        "SELECT f.k AS x0 FROM raw.f AS f EXCEPT ALL SELECT e.g AS x0 FROM raw.e AS e",
        "SELECT f.k AS x0 FROM raw.f AS f INTERSECT ALL SELECT e.g AS x0 FROM raw.e AS e",
    ),
    "rows": (
        "SELECT f.k AS x0, a.s AS x1, b.n AS x2 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k"
        " JOIN raw.b AS b ON a.k = b.k",
        "WITH q AS (SELECT f.k AS k, f.n AS n FROM raw.f AS f) SELECT q1.k AS x0, q2.n AS x1 FROM q AS q1 JOIN q AS q2"
        " ON q1.k = q2.k",
    ),
    # Sources of which only those rows are read that can belong to a change.
    "linked": (
        "SELECT f.k AS x0, a.g AS x1, f.n AS x2 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g WHERE f.n > 1",
        "SELECT f.k AS x0, e.n AS x1 FROM raw.f AS f, raw.e AS e WHERE f.g = e.k AND f.n BETWEEN 0 AND 5 AND e.n > 0",
        "SELECT f.k AS x0, a.g AS x1, e.n AS x2 FROM raw.f AS f JOIN raw.e AS e ON f.k = e.k LEFT JOIN raw.a AS a"
        " ON a.k = f.k AND f.g = e.g",
        "SELECT f.k AS x0, e.n AS x1 FROM raw.f AS f LEFT JOIN raw.e AS e ON e.g = f.k AND e.n > 0",
        "SELECT f.k AS x0, a.k AS x1, e.n AS x2 FROM raw.f AS f LEFT JOIN raw.a AS a ON a.g = f.k"
        " LEFT JOIN raw.e AS e ON e.k = a.k WHERE f.n > 0 OR f.g = 1",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f LEFT ANTI JOIN raw.e AS e ON e.g = f.k AND e.n > 0",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f LEFT SEMI JOIN raw.e AS e ON f.g = e.k",
        "SELECT f.k AS x0, sum(e.n) AS x1, max(e.g) AS x2 FROM raw.f AS f LEFT JOIN raw.e AS e ON e.g = f.k"
        " GROUP BY f.k",
        "SELECT f.k AS x0, count(*) AS x1 FROM raw.f AS f JOIN raw.e AS e ON f.k = e.g AND f.g = e.k"
        " WHERE NOT (f.n = 1 AND f.g = 2) AND CASE WHEN e.n > 1 THEN true ELSE e.g > 0 END GROUP BY f.k",
        "WITH q AS (SELECT f.k AS z, f.n FROM raw.f AS f WHERE f.n > 0), p AS (SELECT * FROM raw.e)"
        " SELECT q.n AS x0, p.n AS x1 FROM q JOIN p ON p.k = q.z",
        "WITH q AS (SELECT f.k AS z, e.g AS y FROM raw.f AS f JOIN raw.e AS e ON f.g = e.g)"
        " SELECT q.y AS x0, a.k AS x1 FROM q JOIN raw.a AS a ON a.k = q.z AND a.g = q.y",
        "WITH q AS (SELECT DISTINCT f.k, f.g FROM raw.f AS f)"
        " SELECT q1.g AS x0, q2.k AS x1 FROM q AS q1 JOIN q AS q2 ON q1.k = q2.g JOIN raw.a AS a ON a.k = q1.k",
        "WITH q (k, g) AS (SELECT f.g, f.k FROM raw.f AS f) SELECT q.k AS x0, a.g AS x1 FROM q JOIN raw.a AS a"
        " ON a.k = q.k",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.e AS e WHERE e.g = f.k"
        " AND e.n > 0)",
        "SELECT f.k AS x0, count(*) AS x1 FROM raw.f AS f JOIN raw.a AS a ON a.k = f.g WHERE NOT EXISTS"
        " (SELECT 1 FROM raw.e AS e WHERE e.k = f.k AND e.g = a.g) GROUP BY f.k",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE f.n > (SELECT count(*) FROM raw.f AS f2, raw.e AS e"
        " WHERE f2.g = f.k AND e.k = f2.k)",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE f.n IN (SELECT e.n FROM raw.e AS e WHERE e.k = f.k)"
        " OR f.g NOT IN (SELECT a.g FROM raw.a AS a WHERE a.k = f.g)",
        # By way of a third column that both equal.
        "SELECT f.k AS x0, a.n AS x1, e.n AS x2 FROM raw.f AS f JOIN (SELECT k, g, n FROM raw.e) AS a ON a.k = f.k"
        " JOIN raw.e AS e ON e.k = a.k WHERE f.n > 0",
        "SELECT f.k AS x0, count(*) AS x1 FROM raw.f AS f JOIN raw.a AS a ON a.k = f.k WHERE EXISTS"
        " (SELECT 1 FROM raw.e AS e WHERE e.g = f.k AND e.n <> f.n) AND NOT EXISTS"
        " (SELECT 1 FROM raw.b AS b WHERE b.k = f.k AND b.n > f.n) GROUP BY f.k",
        "SELECT f.k AS x0, a.g AS x1, e.n AS x2 FROM raw.f AS f LEFT JOIN raw.a AS a ON a.k = f.k LEFT JOIN raw.e AS e"
        " ON e.k = f.k AND e.n > 0 WHERE f.n > 0",
        "SELECT f.k AS x0, e.k AS x1 FROM raw.f AS f, raw.e AS e WHERE f.n < e.n AND NOT EXISTS"
        " (SELECT 1 FROM raw.a AS a WHERE a.k = f.k AND a.k = e.k)",
    ),
    "outer": (
        "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k AND f.g < a.g",
        "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a USING (k)",
        "SELECT f.n AS x0, a.s AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a USING (k, g)",
        # The column of USING is one of a later source too.
        "SELECT f.k AS x0, a.s AS x1, b.n AS x2 FROM raw.f AS f LEFT JOIN raw.a AS a USING (k, g)"
        " JOIN raw.b AS b ON f.k = b.k",
        "SELECT f.n AS x0, a.s AS x1 FROM raw.f AS f NATURAL LEFT JOIN (SELECT k, g, s FROM raw.a) AS a",
        "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f RIGHT JOIN raw.a AS a ON f.k = a.k",
        "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f RIGHT JOIN raw.a AS a USING (k, g)",
        "SELECT f.k AS x0, c.n AS x1 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k NATURAL LEFT JOIN"
        " (SELECT n, d AS e FROM raw.c) AS c",
        "SELECT f.k AS x0 FROM raw.f AS f LEFT ANTI JOIN raw.a AS a ON f.k = a.k",
    ),
    "full": (
        "SELECT f.k AS x0, a.k AS x1, a.s AS x2 FROM raw.f AS f FULL JOIN raw.a AS a ON f.k = a.k",
        "SELECT f.n AS x0, a.s AS x1 FROM raw.f AS f FULL JOIN raw.a AS a USING (k, g)",
        # In brackets.
        "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f FULL JOIN raw.a AS a ON ((f.k = a.k) AND (f.g = a.g))",
        # Texts that are cast to be compared: '1' and '01' are one number, and two texts.
        "SELECT f.k AS x0, f.g AS x1, a.k AS x2 FROM raw.a AS a FULL JOIN raw.f AS f"
        " ON a.k = concat(repeat('0', f.g), f.k)",
    ),
    # Outer joins behind others.
    "chain": (
        "SELECT f.k AS x0, a.s AS x1, b.k AS x2 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k"
        " RIGHT JOIN raw.b AS b ON a.g < b.k",
        "SELECT f.k AS x0, a.k AS x1, b.k AS x2, b.s AS x3 FROM raw.f AS f FULL JOIN raw.a AS a ON f.k = a.k"
        " FULL JOIN raw.b AS b ON b.k = coalesce(f.k, a.k)",
        "SELECT f.k AS x0, a.k AS x1, b.k AS x2 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k AND a.g = 1"
        " FULL JOIN raw.b AS b ON (f.k = b.k)",
        "SELECT f.k AS x0, a.k AS x1, b.k AS x2 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k AND a.g = 1"
        " RIGHT JOIN raw.b AS b ON f.k = b.k OR a.g = b.n",
        "SELECT f.k AS x0, a.k AS x1, b.k AS x2, c.g AS x3 FROM raw.f AS f RIGHT JOIN raw.a AS a ON f.k = a.k"
        " FULL JOIN raw.b AS b ON f.g = b.n LEFT JOIN raw.c AS c ON b.k = c.g",
        "SELECT f.k AS x0, count(*) AS x1, sum(b.n) AS x2 FROM raw.a AS a FULL JOIN raw.f AS f ON f.k = a.k"
        " RIGHT JOIN raw.b AS b ON b.k = f.g GROUP BY f.k",
        "SELECT k AS x0, f.n AS x1, a.s AS x2, b.s AS x3 FROM raw.f AS f FULL JOIN raw.a AS a USING (k)"
        " FULL JOIN raw.b AS b USING (k)",
        "SELECT k AS x0, f.n AS x1, a.s AS x2, b.s AS x3 FROM raw.f AS f RIGHT JOIN raw.a AS a USING (k)"
        " RIGHT JOIN raw.b AS b USING (k)",
        # A value that the first source does not have.
        "SELECT k AS x0, a.s AS x1, b.s AS x2 FROM (SELECT k, n FROM raw.f AS q WHERE k > 5) AS f"
        " FULL JOIN raw.a AS a USING (k) FULL JOIN raw.b AS b USING (k)",
    ),
    "value": (
        "SELECT f.k AS x0, (SELECT max(b.n) FROM raw.b AS b) AS x1 FROM raw.f AS f WHERE f.g = 1",
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM raw.b AS b WHERE b.k = 2) THEN f.n END AS x0 FROM raw.f AS f",
        # The last row that it asks for goes.
        "SELECT f.k AS x0 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.b AS b WHERE b.k = 1)",
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k = 1 OR NOT EXISTS (SELECT 1 FROM raw.b AS b WHERE b.k = 2)",
        "SELECT CASE WHEN f.k + f.g NOT IN (SELECT b.k AS y FROM raw.b AS b) THEN f.n END AS x0 FROM raw.f AS f",
        # Beside groups and window functions, and inside an aggregate.
        "SELECT f.k AS x0, sum(f.n) AS x1 FROM raw.f AS f GROUP BY f.k"
        " HAVING EXISTS (SELECT 1 FROM raw.b AS b WHERE b.k = f.k)",
        "SELECT f.k AS x0, sum(f.n) OVER (PARTITION BY f.k) + (SELECT count(*) FROM raw.b AS b) AS x1 FROM raw.f AS f",
        "SELECT f.k AS x0, sum(CASE WHEN f.n > (SELECT min(b.n) FROM raw.b AS b) THEN 1 ELSE 0 END) AS x1"
        " FROM raw.f AS f GROUP BY f.k",
    ),
    "correlated": (
        "SELECT f.k AS x0 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.a AS a WHERE a.k = f.k AND a.g <> f.g)",
        "SELECT f.k AS x0, (SELECT count(*) FROM raw.a AS a WHERE a.k = f.k) AS x1 FROM raw.f AS f",
        "SELECT f.k AS x0, f.g AS x1 FROM raw.f AS f WHERE NOT EXISTS (SELECT 1 FROM raw.a AS a LEFT JOIN raw.b AS b"
        " ON a.k = b.k WHERE a.k = f.k AND b.k IS NULL)",
        "SELECT f.k AS x0, f.g AS x1 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.a AS a LEFT JOIN raw.b AS b"
        " ON a.k = b.k WHERE a.k = f.k AND b.k IS NULL)",
        "SELECT f.k AS x0, (SELECT count(*) FROM raw.a AS a WHERE a.k = f.k AND NOT EXISTS (SELECT 1 FROM raw.b AS b"
        " WHERE b.k = a.g)) AS x1 FROM raw.f AS f",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE f.n >= (SELECT sum(a.k) FROM raw.a AS a WHERE a.g = f.g)",
        # A value inside of a subquery.
        "SELECT f.k AS x0 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.a AS a WHERE a.k = f.k"
        " AND a.g >= (SELECT min(b.n) FROM raw.b AS b))",
    ),
    "in": (
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k IN (SELECT a.k AS y FROM raw.a AS a)",
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k NOT IN (SELECT a.k AS y FROM raw.a AS a WHERE a.g = 1)",
        # A NULL that comes makes the answer unknown for every row; for one with a NULL, whatever comes.
        "SELECT f.k AS x0, f.g AS x1 FROM raw.f AS f WHERE f.k NOT IN (SELECT a.k AS y FROM raw.a AS a)",
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k NOT IN (SELECT a.k AS y FROM raw.a AS a WHERE a.s = 'y')",
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.g = 1 OR f.k IN (SELECT a.k AS y FROM raw.a AS a)",
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE f.k + f.g NOT IN (SELECT a.k AS y FROM raw.a AS a)",
        "SELECT f.k AS x0, f.g AS x1, f.k IN (SELECT a.k AS y FROM raw.a AS a) AS x2 FROM raw.f AS f",
    ),
    "scalar": (
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.n > (SELECT max(b.n) AS y FROM raw.b AS b) - 3",
        # The value goes up and down by a little, and is NULL now and then.
        "SELECT f.k AS x0, f.n AS x1 FROM raw.f AS f WHERE f.n >= (SELECT max(b.n) AS y FROM raw.b AS b WHERE b.k = 1)",
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.n >= (SELECT sum(b.n) AS y FROM raw.b AS b) AND f.g = 1",
        # Between ANDs stands a part that holds for other rows than the condition as a whole.
        "SELECT f.k AS x0 FROM raw.f AS f WHERE f.n >= (SELECT max(b.n) AS y FROM raw.b AS b WHERE b.k = 1)"
        " OR f.g = 1 AND f.k = 2",
    ),
    "state": (
        "SELECT a.s AS x0, count(*) AS x1, sum(f.d) AS x2, max(f.n) AS x3 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k"
        " GROUP BY a.s",
        "SELECT f.k AS x0, count(*) AS x1, sum(f.n) AS x2, avg(f.n) AS x3, bool_and(f.g > 0) AS x4 FROM raw.f AS f"
        " GROUP BY f.k",
        "SELECT f.k AS x0, count(DISTINCT f.n) AS x1, count(*) AS x2 FROM raw.f AS f GROUP BY f.k",
        "SELECT f.k AS x0, count(*) AS x1, sum(f.n) AS x2 FROM raw.f AS f GROUP BY f.k"
        " ORDER BY x1 DESC, 1 NULLS LAST LIMIT 2",
        "WITH q AS (SELECT f.k AS k, sum(f.n) AS n FROM raw.f AS f GROUP BY f.k) SELECT q.k AS x0, q.n AS x1,"
        " sum(q.n) OVER (ORDER BY q.k) AS x2 FROM q",
        # A subtotal and a group of NULL look alike.
        "SELECT f.k AS x0, f.g AS x1, sum(f.n) AS x2, count(*) AS x3 FROM raw.f AS f GROUP BY ROLLUP (f.k, f.g)"
        " HAVING count(*) > 0",
        # Sets that are listed several times.
        "SELECT f.k AS x0, f.g AS x1, sum(f.n) AS x2, count(*) AS x3 FROM raw.f AS f"
        " GROUP BY ROLLUP (f.k, f.g), CUBE (f.k)",
        "SELECT f.k AS x0, sum(f.n) + (SELECT count(*) FROM raw.b AS b) AS x1 FROM raw.f AS f GROUP BY f.k",
        "SELECT x0, count(*) AS x1 FROM (SELECT f.k AS k, count(*) AS x0 FROM raw.f AS f GROUP BY f.k) AS q"
        " GROUP BY x0",
        "SELECT sum(f.n) AS x0, count(*) AS x1 FROM raw.f AS f WHERE f.k = 1",
        # Equal rows come and go together.
        "SELECT q.g AS x0, count(*) AS x1 FROM (SELECT f.g AS g FROM raw.f AS f UNION ALL SELECT e.g AS g"
        " FROM raw.e AS e) AS q GROUP BY q.g",
    ),
    "groups": (
        "SELECT a.s AS x0, sum(f.n) AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k GROUP BY a.s"
        " HAVING count(*) > 1",
        "SELECT f.k AS x0, f.g AS x1, count(*) AS x2 FROM raw.f AS f GROUP BY f.k, f.g",
        # A condition with OR, of which the touched groups are only a part.
        "SELECT f.k AS x0, count(*) AS x1, sum(f.n) AS x2 FROM raw.f AS f WHERE f.g = 1 OR f.n > 0 GROUP BY f.k",
    ),
    "partitions": (
        "SELECT f.k AS x0, f.n AS x1, rank() OVER (PARTITION BY f.k ORDER BY f.n) AS x2 FROM raw.f AS f",
        "SELECT f.k AS x0, count(*) OVER (PARTITION BY f.k, f.g) AS x1, count(*) OVER (PARTITION BY f.g) AS x2"
        " FROM raw.f AS f",
        "SELECT f.k AS x0, f.g AS x1, sum(count(*)) OVER (PARTITION BY f.k) AS x2 FROM raw.f AS f GROUP BY f.k, f.g",
        # Partitions that overlap.
        "SELECT f.k AS x0, f.g AS x1, count(*) OVER (PARTITION BY f.k) AS x2, sum(f.n) OVER (PARTITION BY f.g) AS x3"
        " FROM raw.f AS f",
        "SELECT f.n AS x0, rank() OVER w AS x1, count(*) OVER (v) AS x2 FROM raw.f AS f"
        " WINDOW w AS (PARTITION BY f.k ORDER BY f.n), v AS (PARTITION BY f.g)",
    ),
    "compare": ("SELECT f.k AS x0, rank() OVER (ORDER BY f.n) AS x1 FROM raw.f AS f",),
}
