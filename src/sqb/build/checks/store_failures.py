"""Keeping the rows that violate checks in a table of the model's schema, for people who have to find out why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqb.build.checks.report import Failure
from sqb.lake.state.rows import FailedRow

MOST_ROWS = 1_000
_AS_JSON = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row_json"


def iter_violating_rows(
    session: Any, failures: Iterable[Failure], schema: str, node: str, run_id: str, now: datetime
) -> Iterator[FailedRow]:
    """The violating rows, up to `MOST_ROWS` of each check, as JSON.

    A check that is not about single rows has one line without a row. What the failures' queries read must still exist.
    """
    for failure in failures:
        check = failure.check
        severity = "error" if check.is_blocking else "warn"
        for text in _read_rows(session, failure):
            yield FailedRow(node, schema, run_id, f"{check.role}: {check.text}", severity, text, now)


def _read_rows(session: Any, failure: Failure) -> list[str | None]:
    if failure.query is None:
        return [None]
    return [row[0] for row in session.sql(failure.query).limit(MOST_ROWS).selectExpr(_AS_JSON).collect()]
