"""One query of the user's own, run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from sqb.build.observe.files import SparkFileViews
from sqb.build.observe.lake import observe_lake
from sqb.errors.base import SqbError
from sqb.errors.build import QueryFailed
from sqb.lake.iceberg import IcebergLake
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.spark_engine import LazyEngine


def execute_query(
    sql: str,
    limit: int,
    workspace: Workspace,
    lake: IcebergLake,
    create_engine: Callable[[Collection[str]], LazyEngine],
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The columns and the first rows of a query; `engine_for` makes the engine, given the functions that it calls."""
    from sqb.inspect.query import expand_functions, resolve_query  # reads SQL

    seen = observe_lake(workspace, lake)
    called = expand_functions(sql, workspace.project, workspace.root)
    text, sources = resolve_query(called.text, workspace, lake, seen.files)
    engine = create_engine(called.functions)
    try:
        session = engine.session()
        from sqb.spark.data.frames import query_rows
        from sqb.spark.errors import explain_failure  # Spark is there, and pyspark with it

        SparkFileViews(seen.files).register(session, sources, workspace.project)
        try:
            return query_rows(session, text, limit)
        except SqbError:
            raise
        except Exception as error:
            failure = explain_failure(error, text)
            raise QueryFailed(failure.message, hint=failure.hint) from error
    finally:
        engine.stop()
