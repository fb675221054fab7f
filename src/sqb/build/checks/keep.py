"""Keeping the rows that violate checks in a table of the model's schema, for whoever has to find out why."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from typing import Any

from sqb.build.checks.report import Failure
from sqb.names import quote
from sqb.sql.expand import literal

TABLE = "_sqlbuild_failures"
MOST_ROWS = 1_000
_COLUMNS = "run_id STRING, node_name STRING, check_text STRING, severity STRING, row_json STRING, ts TIMESTAMP"


def store_failures(
    session: Any, catalog: str, schema: str, node: str, run_id: str, failures: Iterable[Failure], now: datetime
) -> str | None:
    """Append the violating rows, up to `MOST_ROWS` of each check, as JSON; gives the table, None when there are none.

    A check that is not about single rows has one line without a row. What the failures' queries read must still exist.
    """
    table = quote(catalog, schema, TABLE)
    frames = [_lines(session, failure, node, run_id, now) for failure in failures]
    if not frames:
        return None
    session.sql(f"CREATE TABLE IF NOT EXISTS {table} ({_COLUMNS}) USING iceberg")
    reduce(lambda one, other: one.unionAll(other), frames).writeTo(table).append()
    return f"{schema}.{TABLE}"


def _lines(session: Any, failure: Failure, node: str, run_id: str, now: datetime) -> Any:
    if failure.query is None:
        rows = session.sql("SELECT CAST(NULL AS STRING) AS row_json")
    else:
        frame = session.sql(failure.query).limit(MOST_ROWS)
        rows = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS row_json")
    check = failure.check
    severity = "warn" if not check.blocks else "error"
    fixed = [literal(text) for text in (run_id, node, f"{check.role}: {check.text}", severity)]
    names = ("run_id", "node_name", "check_text", "severity")
    return rows.selectExpr(
        *(f"{text} AS {name}" for text, name in zip(fixed, names, strict=True)),
        "row_json",
        f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}' AS ts",
    )
