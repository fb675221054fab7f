"""A table of the project as a DataFrame, for those who go on with it in Python."""

from __future__ import annotations

from typing import Any

from sqb.build.observe.files import SparkFileViews
from sqb.build.observe.lake import observe_lake
from sqb.build.spark_engine import OnDemandSpark
from sqb.names import quote
from sqb.operations.environment import open_read_only
from sqb.workspace import Workspace


def open_frame(workspace: Workspace, name: str, virtual_env: str | None, spark: OnDemandSpark) -> Any:
    """The rows of a node or source as a DataFrame on a session that stays with the caller."""
    from sqb.inspect.query import resolve_query  # reads SQL

    opened, lake = open_read_only(workspace, virtual_env, as_shown=True)
    seen = observe_lake(opened, lake)
    query = resolve_query(f"SELECT * FROM {quote(*name.split('.'))}", opened, lake, seen.files)
    session = spark.session()
    SparkFileViews(seen.files).register(session, query.sources, opened.project)
    return session.sql(query.text)
