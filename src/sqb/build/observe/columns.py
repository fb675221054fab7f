"""The columns of everything in a project, from the lake's metadata and through the queries. Starts no Java."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqb.build.observe.lake import LakeState
from sqb.plan.node_columns import ProjectColumns, derive_project_columns
from sqb.sql.columns.cache import ColumnsCache
from sqb.sql.columns.functions.signatures import Signatures
from sqb.workspace import Workspace, compute_code_stamp

# Settings by which a session may know functions that are neither Spark's nor the project's.
_ADDS_FUNCTIONS = ("spark.sql.extensions", "spark.jars", "spark.plugins", "spark.sql.catalogImplementation")


def observe_columns(
    workspace: Workspace, seen: LakeState, running: Collection[str], names: Iterable[str] = ()
) -> ProjectColumns:
    """The columns after a build in which these nodes run, and the mistakes in their queries and in those of `names`."""
    project, signatures = workspace.project, build_signatures(workspace)
    cache = ColumnsCache(workspace.folder / "cache" / "columns", compute_code_stamp(), workspace.outlines)
    columns = derive_project_columns(
        project,
        running,
        seen.observed.relations.get,
        lambda text, slots, tables: cache.evaluate(text, slots, tables, signatures),
        names,
    )
    cache.save()
    return columns


def build_signatures(workspace: Workspace) -> Signatures:
    """The functions that the project's queries can call."""
    spark = workspace.connection.spark
    is_complete = spark.remote is None and not any(key.startswith(_ADDS_FUNCTIONS) for key in spark.conf)
    own = {f.name: f.returns for f in workspace.project.functions if f.language == "python" and not f.is_table}
    return Signatures(own, is_complete)
