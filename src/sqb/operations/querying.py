"""One query of the user's own, run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from sqb.build.observe import look
from sqb.build.source_files import NamedFiles
from sqb.errors import QueryFailed, SqbError
from sqb.lake.iceberg import IcebergLake
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.engine import LazyEngine


def rows_of(
    sql: str, limit: int, workspace: Workspace, lake: IcebergLake, engine_for: Callable[[Collection[str]], LazyEngine]
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The columns and the first rows of a query; `engine_for` makes the engine, given the functions that it calls."""
    from sqb.build.query import resolve_query, with_functions  # reads SQL

    seen = look(workspace, lake)
    called = with_functions(sql, workspace.project, workspace.root)
    text, sources = resolve_query(called.text, workspace, lake, seen.files)
    engine = engine_for(called.functions)
    try:
        session = engine.session()
        from sqb.spark.failures import explain  # Spark is there, and pyspark with it
        from sqb.spark.frames import query_rows

        NamedFiles(seen.files).name(session, sources, workspace.project)
        try:
            return query_rows(session, text, limit)
        except SqbError:
            raise
        except Exception as error:
            failure = explain(error, text)
            raise QueryFailed(failure.message, hint=failure.hint) from error
    finally:
        engine.stop()
