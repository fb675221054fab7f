"""What builds do, done on a lake that is thrown away: for Java to have seen it all once."""

from __future__ import annotations

from typing import Any

from sqb.lake.port import Shape
from sqb.spark.data.frames import analyze, list_columns, write_to_stage

_TABLES = {
    "facts": "(id BIGINT, k BIGINT, name STRING, ts TIMESTAMP, price DECIMAL(18, 2)) USING iceberg PARTITIONED BY (k)",
    "sums": "(k BIGINT, n BIGINT, total DECIMAL(38, 2), latest TIMESTAMP, name STRING) USING iceberg",
}
_FACTS = """
SELECT id, id % 3 AS k, concat('n', id) AS name, TIMESTAMP'2026-01-01' AS ts, CAST(id AS DECIMAL(18, 2)) AS price
FROM range(100)
"""
_SUMS = """
WITH ranked AS (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC) AS r FROM {0}.facts WHERE name LIKE 'n%')
SELECT f.k, count(*) AS n, sum(f.price) AS total, max(f.ts) AS latest, max(upper(r.name)) AS name
FROM {0}.facts f LEFT JOIN ranked r ON f.k = r.k AND r.r = 1
GROUP BY f.k
"""


def run_warmup_queries(session: Any, schema: str) -> None:
    """Read, join, rank, group, write with a content, sort and read rows, in a schema (as SQL names it) that is new."""
    session.sql(f"CREATE NAMESPACE {schema}")
    for name, columns in _TABLES.items():
        session.sql(f"CREATE TABLE {schema}.{name} {columns}")
    for sql, name, sorted_by in ((_FACTS, "facts", ("id",)), (_SUMS.format(schema), "sums", ())):
        frame = analyze(session, sql)
        write_to_stage(session, frame, f"{schema}.{name}", Shape(list_columns(frame), (), sorted_by))
    session.sql(f"SELECT * FROM {schema}.sums ORDER BY k").collect()
