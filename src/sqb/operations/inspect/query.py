"""One query of the user's own, run on Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqb.build.observe.files import SparkFileViews
from sqb.build.observe.lake import LakeState, observe_lake
from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import Project
from sqb.errors.base import SqbError
from sqb.errors.build import QueryFailed
from sqb.operations.environment import open_read_only
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.inspect.query import ResolvedQuery


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """A query, how many of its rows are wanted, and the environment that it reads."""

    sql: str
    limit: int = 100
    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns and the first rows of a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    seconds: float

    def to_data(self) -> dict[str, Any]:
        """What `sqb query --json` prints."""
        rows = [dict(zip(self.columns, (_encode_value(v) for v in row), strict=True)) for row in self.rows]
        return {"columns": list(self.columns), "rows": rows}


def run_query(workspace: Workspace, options: QueryOptions, spark: OnDemandSpark) -> QueryResult:
    """Run one query, which can only read; `spark` is stopped."""
    from sqb.inspect.query import expand_functions, resolve_query  # reads SQL

    opened, lake = open_read_only(workspace, options.virtual_env, as_shown=True)
    started_at = time.monotonic()
    seen = observe_lake(opened, lake)
    called = expand_functions(options.sql, opened.project, opened.root)
    query = resolve_query(called.text, opened, lake, seen.files)
    engine = spark.get_engine(functions=called.functions)
    engine.expect_rows(_estimate_rows(query, opened.project, seen))
    try:
        session = engine.session()
        from sqb.spark.data.frames import query_rows
        from sqb.spark.errors import explain_failure  # Spark is there, and pyspark with it

        SparkFileViews(seen.files).register(session, query.sources, opened.project)
        try:
            columns, rows = query_rows(session, query.text, options.limit)
        except SqbError:
            raise
        except Exception as error:
            failure = explain_failure(error, query.text)
            raise QueryFailed(failure.message, hint=failure.hint) from error
    finally:
        engine.stop()
    return QueryResult(columns, tuple(rows), time.monotonic() - started_at)


def _estimate_rows(query: ResolvedQuery, project: Project, seen: LakeState) -> int | None:
    """The rows that a query reads, as far as metadata tells."""
    from sqb.build.work_size import build_row_counter, estimate_generated_rows

    if query.reads is None:
        return None
    counts = [*map(build_row_counter(project, seen), query.reads), estimate_generated_rows(query.text)]
    return None if None in counts else sum(filter(None, counts))


def _encode_value(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None.__class__ | list | dict) else str(value)
