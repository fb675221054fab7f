"""What sqb says that a query reads, tried on Spark.

Every column that is not read is taken away, and every name that a query mentions and does not read is added to every
table, with other values. The result must be what it was. The same for columns that stand alone in a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from sqb.sql.analysis.parse import read_query
from sqb.sql.text.columns_read import ALL, ASKED
from sqb.sql.text.lexer import tokenize_code

TABLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "t": {
        "id": ("1", "2", "3", "3"),
        "a": ("'x'", "'y'", "'z'", "'z'"),
        "b": ("10", "20", "CAST(NULL AS INT)", "5"),
        "s": ("named_struct('f', 1, 'g', 'p')",) * 4,
        "r": ("array(1, 2)", "array(3)", "array()", "array(4)"),
    },
    "u": {"id": ("1", "3", "4"), "c": ("'cx'", "'cz'", "'cw'"), "b": ("7", "8", "9"), "o": ("1", "1", "2")},
}
QUERIES = [
    "SELECT a, b + 1 AS n FROM t WHERE id < 3",
    "SELECT * FROM t",
    "SELECT * EXCEPT (r) FROM t",
    "SELECT DISTINCT a FROM t",
    "SELECT x.a FROM t x WHERE x.b > 1",
    "SELECT a AS q, q || '!' AS p FROM t",
    "SELECT id % 2 AS k, count(*) AS n FROM t GROUP BY k",
    "SELECT b AS a, id FROM t ORDER BY a",
    "SELECT s.f AS h, t.s.g AS i FROM t",
    "SELECT s.* FROM t",
    "SELECT s.f AS f FROM t s",
    "SELECT e FROM t LATERAL VIEW explode(r) l AS e",
    "SELECT id, l.e FROM t, LATERAL explode(t.r) AS l(e)",
    "SELECT transform(r, x -> x + b) AS y FROM t",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY id, b) AS n FROM t",
    "SELECT sum(b) OVER w AS n FROM t WINDOW w AS (PARTITION BY a)",
    "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
    "SELECT t.a, c FROM t JOIN u ON t.id = u.id",
    "SELECT t.a, c FROM t JOIN u USING (id)",
    "SELECT a, u.b FROM t LEFT JOIN u ON t.id = u.id AND u.o = 1",
    "SELECT a FROM t LEFT SEMI JOIN u ON t.id = u.id",
    "SELECT p.a FROM t p JOIN t q ON p.id = q.id AND p.a = q.a",
    "SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE u.id = t.id)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND a = 'x')",
    "SELECT w.a FROM t w WHERE w.id IN (SELECT u.id FROM u WHERE u.c <> w.a)",
    "SELECT a FROM t WHERE id IN (SELECT id FROM u WHERE r IS NOT NULL)",
    "SELECT (SELECT max(c) FROM u WHERE u.id = t.id) AS m FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE o = t.id AND size(r) > 0) AS n FROM t",
    "WITH x AS (SELECT * FROM t) SELECT a FROM x",
    "WITH x AS (SELECT * FROM t), y AS (SELECT *, 1 AS one FROM x) SELECT y.a, one FROM y JOIN u ON u.id = y.id",
    "WITH x AS (SELECT t.*, u.c FROM t JOIN u ON t.id = u.id) SELECT a, c FROM x",
    "WITH x(p, q) AS (SELECT id, a FROM t) SELECT q FROM x",
    "SELECT v.a FROM (SELECT * FROM t) v WHERE v.b IS NOT NULL",
    "SELECT a FROM t UNION ALL SELECT c FROM u",
    "SELECT id FROM t EXCEPT SELECT id FROM u",
    "SELECT count(*) AS n FROM t",
    "SELECT m.n FROM t, LATERAL (SELECT u.c || t.a AS n FROM u WHERE u.id = t.id) m",
    "SELECT t.id FROM (t JOIN u ON t.id = u.id)",
    "SELECT a, CASE WHEN b > 5 THEN 'many' ELSE 'few' END AS size FROM t",
    "SELECT current_date > DATE'2020-01-01' AS later FROM t",
    "SELECT max(b) FILTER (WHERE a = 'x') AS m FROM t GROUP BY ALL",
    "SELECT named_struct('a', id) AS a FROM t",
]


def _table(columns: Mapping[str, Sequence[str]]) -> str:
    rows = zip(*columns.values(), strict=True) if columns else [()]
    selects = [", ".join(f"{value} AS `{name}`" for name, value in zip(columns, row, strict=True)) for row in rows]
    return " UNION ALL ".join(f"SELECT {items}" for items in selects)


def _rows(spark: SparkSession, sql: str, tables: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[str, list[str]]:
    for name, columns in tables.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {_table(columns)}")
    frame = spark.sql(sql)
    return frame.schema.simpleString(), sorted(repr(tuple(row)) for row in frame.collect())


def _altered(
    columns: Mapping[str, Sequence[str]], read: frozenset[str], names: Iterable[str]
) -> dict[str, Sequence[str]]:
    """A table without the columns that are not read, and with more of them that are not."""
    count = len(next(iter(columns.values())))
    remaining = {name: values for name, values in columns.items() if name in read}
    more = [n for n in names if n not in read and n not in remaining]
    return {**{n: (f"named_struct('a', 'other {n}', 'f', 99)",) * count for n in more}, **remaining}


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_that_are_not_read_may_come_and_go(spark: SparkSession, sql: str) -> None:
    query = read_query(sql, {})
    reads: dict[str, frozenset[str]] = {}
    for slot, read in zip(query.slots, query.reading, strict=True):
        reads[slot.name] = reads.get(slot.name, frozenset()) | frozenset(read)
    words = {t.text.strip("`").lower() for t in tokenize_code(sql) if t.kind in ("word", "quoted")}
    others = sorted({*words, *(c for columns in TABLES.values() for c in columns), "zz"})
    now = {
        name: columns if {ALL, ASKED} & reads[name] else _altered(columns, reads[name], others)
        for name, columns in TABLES.items()
        if name in reads
    }
    assert _rows(spark, query.runnable, now) == _rows(spark, query.runnable, TABLES)


def _alone(sql: str) -> set[str]:
    """The columns that may be taken out of a query, leaving others."""
    query = read_query(sql, {})
    if query.columns is None or len(query.outputs or ()) < 2:
        return set()
    return {name for name, _ in query.columns.independent}


@pytest.mark.parametrize("sql", [sql for sql in QUERIES if _alone(sql)])
def test_columns_that_stand_alone_may_be_taken_out(spark: SparkSession, sql: str) -> None:
    outputs, alone = list(read_query(sql, {}).outputs or ()), _alone(sql)
    whole = _rows(spark, f"SELECT `{'`, `'.join(outputs)}` FROM ({sql})", TABLES)
    items = _find_items(sql, len(outputs))
    for name in alone:
        rest = [o for o in outputs if o.lower() != name]
        shorter = items[0] + ", ".join(i for i, o in zip(items[1:-1], outputs, strict=True) if o in rest) + items[-1]
        shown = f"SELECT `{'`, `'.join(rest)}` FROM"
        assert _rows(spark, f"{shown} ({shorter})", TABLES) == _rows(spark, f"{shown} ({sql})", TABLES), shorter
    assert whole


def _find_items(sql: str, count: int) -> list[str]:
    """What stands before the list, its items, and what stands after it."""
    from sqb.sql.analysis.select_list import _find_items as ranges

    tokens = tokenize_code(sql)
    spans = ranges(sql, tokens)
    assert spans is not None and len(spans) == count
    texts = [sql[tokens[a].start : tokens[b - 1].end] for a, b in spans]
    return [sql[: tokens[spans[0][0]].start], *texts, " " + sql[tokens[spans[-1][1]].start :]]
