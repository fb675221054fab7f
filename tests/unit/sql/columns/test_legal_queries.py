"""What Spark accepts passes without an error: TPC-H, TPC-DS, random queries, and forms that are easily taken for mistakes.

scripts/spark_queries.py asks the same of the queries in Spark's own tests, which are not part of this repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from sqb.sql.analysis.parse import read_query_with_outline
from sqb.sql.columns.evaluate import QueryColumns, evaluate_query
from sqb.sql.columns.signatures import Signatures
from sqb.sql.columns.sources import NamedColumn
from sqb.types.parse import parse_type
from support.columns import read_tables
from support.random_queries import TABLES as RANDOM_TABLES
from support.random_queries import QueryMaker
from support.tpc import BENCHMARKS, read_queries, read_schemas

TABLES = read_tables(
    orders="""
        id bigint, customer int, amount decimal(10,2), day date, at timestamp, tags array<string>,
        info struct<a:int,b:string>, lines array<struct<sku:string,n:int>>, attrs map<string,int>, ok boolean, note string
    """,
    customers="id int, name string, day date",
)
LEGAL = """
    SELECT ID, Orders.Amount, ORDERS.id AS x FROM orders
    SELECT amount AS a, a * 2 AS b, b + a AS c FROM orders
    SELECT info.a, o.info.b, info.a + 1 AS n FROM orders o
    SELECT lines.sku, lines[0].n AS n, lines[0]['sku'] AS s FROM orders
    SELECT attrs['k'] AS k, attrs.k AS l, element_at(attrs, 'k') AS m FROM orders
    SELECT transform(tags, t -> upper(t)) AS u, filter(tags, (t, i) -> i > id) AS f FROM orders
    SELECT aggregate(lines, 0, (acc, l) -> acc + l.n, acc -> acc * 2) AS n FROM orders
    SELECT exists(tags, t -> t = note) AS e, forall(tags, x -> x IS NOT NULL) AS f FROM orders
    SELECT customer AS c, sum(amount) AS s FROM orders GROUP BY c HAVING s > 1 ORDER BY s, c
    SELECT customer, sum(amount) AS s FROM orders GROUP BY 1 ORDER BY 2 DESC
    SELECT customer, day, count(*) AS n FROM orders GROUP BY ALL
    SELECT customer, grouping(day) AS g, grouping_id() AS i, sum(amount) AS s FROM orders GROUP BY customer, day WITH CUBE
    SELECT customer, day, sum(amount) AS s FROM orders GROUP BY GROUPING SETS ((1, 2), (1), ())
    SELECT upper(note) AS n, count(*) AS c FROM orders GROUP BY upper(note)
    SELECT customer + 1 AS c, max(id) AS m FROM orders GROUP BY customer
    SELECT sum(amount) AS s, 1 AS one, current_date AS d, 'x' AS x FROM orders
    SELECT customer, sum(sum(amount)) OVER (ORDER BY customer) AS s FROM orders GROUP BY customer
    SELECT id, sum(amount) OVER w AS s FROM orders WINDOW w AS (PARTITION BY customer ORDER BY day)
    SELECT id, row_number() OVER (PARTITION BY customer ORDER BY day) AS r FROM orders QUALIFY r = 1
    SELECT listagg(note, ',') WITHIN GROUP (ORDER BY id) AS l, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS p FROM orders
    SELECT count(DISTINCT customer, day) AS n, first(note, true) AS f, any_value(note) IGNORE NULLS AS a FROM orders
    SELECT max_by(note, amount) AS m, sum(amount) FILTER (WHERE ok) AS s FROM orders
    SELECT * EXCEPT (id, info.a) FROM orders
    SELECT info.*, id FROM orders
    SELECT id, t FROM orders LATERAL VIEW explode(tags) e AS t
    SELECT id, p, t FROM orders LATERAL VIEW OUTER posexplode(tags) e AS p, t WHERE e.t > 'a'
    SELECT id, k, v FROM orders LATERAL VIEW explode(attrs) e AS k, v
    SELECT id, col FROM orders LATERAL VIEW explode(tags)
    SELECT explode(attrs) AS (k, v) FROM orders
    SELECT explode(tags) AS t, id FROM orders
    SELECT inline(lines) FROM orders
    SELECT o.id, l.n FROM orders o, LATERAL (SELECT o.amount * 2 AS n) l
    SELECT o.id, l.name FROM orders o LEFT JOIN LATERAL (SELECT name FROM customers c WHERE c.id = o.customer) l ON true
    SELECT id, name FROM orders JOIN customers USING (id)
    SELECT o.id, c.id AS other FROM orders o JOIN customers c USING (id)
    SELECT id, day, name FROM orders NATURAL JOIN customers
    SELECT * FROM (SELECT id, note FROM orders) NATURAL LEFT JOIN (SELECT id, name FROM customers)
    SELECT id FROM orders LEFT SEMI JOIN customers c ON customer = c.id
    SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customers WHERE customers.id = customer AND note = name)
    SELECT id, (SELECT max(name) FROM customers c WHERE c.id = o.customer) AS n FROM orders o
    SELECT id FROM orders WHERE customer IN (SELECT id FROM customers) AND (id, customer) IN (SELECT id, id FROM customers)
    SELECT customer, max(amount) AS m FROM orders o GROUP BY customer HAVING EXISTS (SELECT 1 FROM customers WHERE id < max(o.amount))
    SELECT a.id FROM orders a JOIN orders b ON a.id = b.id AND a.day < b.day
    SELECT x.id FROM (orders x JOIN customers y ON x.customer = y.id)
    SELECT id FROM (SELECT id, id FROM orders) s
    WITH a AS (SELECT * FROM orders), b AS (SELECT id, note FROM a) SELECT b.note FROM b JOIN a ON a.id = b.id
    WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r
    WITH orders AS (SELECT 1 AS z) SELECT z FROM orders
    WITH unused AS (SELECT nothing FROM nowhere) SELECT id FROM orders
    SELECT a, b FROM VALUES (1, 'x'), (2, 'y') AS t(a, b)
    SELECT col1 FROM VALUES (1), (2)
    SELECT id FROM range(10)
    SELECT r.id * 2 AS n FROM range(1, 10) AS r
    SELECT * FROM orders PIVOT (sum(amount) FOR customer IN (1 AS one, 2 AS two))
    SELECT one FROM (SELECT customer, amount FROM orders) PIVOT (sum(amount) FOR customer IN (1 AS one))
    SELECT id, kind, value FROM customers UNPIVOT (value FOR kind IN (name))
    SELECT id, _file, _pos, _metadata.row_index AS r FROM orders
    SELECT id FROM orders VERSION AS OF 3 WHERE gone_since > 1
    SELECT id FROM orders TABLESAMPLE (10 PERCENT) s WHERE s.amount > 1
    SELECT id AS k FROM orders UNION ALL SELECT customer FROM orders ORDER BY k
    SELECT id, NULL AS x FROM orders UNION ALL SELECT id, name FROM customers
    SELECT id, name FROM customers UNION BY NAME SELECT note AS name, id FROM orders
    SELECT id FROM orders EXCEPT ALL SELECT id FROM customers
    SELECT CASE WHEN ok THEN 1 ELSE 2.5 END AS x, CASE note WHEN 'a' THEN day END AS d FROM orders
    SELECT coalesce(day, at) AS m, greatest(1, 2.5, customer) AS g, nvl(note, 'x') AS n FROM orders
    SELECT id FROM orders WHERE note = 1 AND day = '2024-01-01' AND at > day AND ok = 'true' AND id = '1'
    SELECT id FROM orders WHERE day BETWEEN '2024-01-01' AND current_date AND amount IN (1, 2.5, '3')
    SELECT day + 1 AS a, day - day AS b, at - INTERVAL 1 DAY AS c, day + INTERVAL '1' MONTH AS d, 2 * INTERVAL 1 DAY AS e FROM orders
    SELECT date_add(day, 1) AS a, dateadd(MONTH, 1, day) AS b, datediff(day, at) AS c, timestampdiff(HOUR, at, at) AS d FROM orders
    SELECT extract(YEAR FROM day) AS y, date_trunc('MONTH', at) AS m, trunc(day, 'YEAR') AS t FROM orders
    SELECT trim(BOTH 'x' FROM note) AS a, substring(note FROM 2 FOR 3) AS b, position('a' IN note) AS c, overlay(note PLACING 'x' FROM 1) AS d FROM orders
    SELECT CAST(id AS STRING) AS a, id::double AS b, CAST(at AS DATE) AS c, try_cast(note AS INT) AS d, CAST(info AS STRING) AS e FROM orders
    SELECT cast(id AS int) FROM orders ORDER BY id
    SELECT note LIKE 'a%' AS a, note ILIKE ANY ('a', 'b') AS b, note RLIKE 'x' AS c, note <=> NULL AS d FROM orders
    SELECT if(ok, 1, 0) AS a, nullif(id, 0) AS b, nvl2(note, 1, 2) AS c, iff AS d FROM (SELECT *, 1 AS iff FROM orders)
    SELECT named_struct('a', id, 'b', note).b AS b, struct(id, note).id AS i, map('a', 1)['a'] AS m, array(1, 2)[0] AS e FROM orders
    SELECT from_json(note, 'a INT').a AS a, get_json_object(note, '$.a') AS b FROM orders
    SELECT `id`, `o`.`note` FROM orders `o`
    SELECT sum(amount) FROM orders
    SELECT `sum(amount)` FROM (SELECT sum(amount) FROM orders)
    SELECT upper(note) FROM orders ORDER BY upper(note)
    SELECT window.start, count(*) AS n FROM orders GROUP BY window(at, '1 day')
    SELECT id FROM orders DISTRIBUTE BY customer SORT BY day
    SELECT /*+ BROADCAST(c) */ o.id FROM orders o JOIN customers c ON o.customer = c.id
    SELECT id, `from` AS f FROM (SELECT id, note AS `from` FROM orders)
    SELECT id, stack(2, 1, 2) AS s FROM orders
    SELECT monotonically_increasing_id() AS m, uuid() AS u, rand() AS r, input_file_name() AS f, user AS w FROM orders
    SELECT some_catalog.some_schema.some_function(id) AS x FROM orders
"""


def evaluate(sql: str, tables: Mapping[str, Sequence[NamedColumn]]) -> QueryColumns:
    query, outline = read_query_with_outline(sql, {})
    return evaluate_query(outline, {s.start: tables.get(s.name.lower()) for s in query.slots}, Signatures())


@pytest.mark.parametrize("sql", [line.strip() for line in LEGAL.strip().split("\n")])
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
        sql = QueryMaker(Random(seed)).make()
        result = evaluate(sql, tables)
        assert (result.problems, result.is_open) == ((), False), sql
