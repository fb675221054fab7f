"""Spark's own word on every query of a project: each is analysed over empty tables, and nothing is run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqb.build.errors import convert_spark_error
from sqb.build.node.render import build_live_names, render_query
from sqb.build.observe.lake import LakeState
from sqb.build.spark_engine import OnDemandSpark
from sqb.build.unit_tests.execute import format_rows, strip_arguments
from sqb.compile.model import Node
from sqb.errors.base import SqbError, flatten
from sqb.operations.environment import BuildEnvironment
from sqb.operations.inspect.validate import BROKEN
from sqb.plan.node_columns import read_table_columns
from sqb.project.models.kinds import list_added_columns
from sqb.types.model import UNKNOWN, Type
from sqb.types.parse import parse_type
from sqb.workspace import Workspace


def analyse_models(
    environment: BuildEnvironment, workspace: Workspace, seen: LakeState, wrong: Collection[str], spark: OnDemandSpark
) -> tuple[int, list[SqbError]]:
    """How many models Spark analysed, and what it says is wrong; files that are known to be wrong are left out."""
    environment.lake.ensure_schemas(())  # Spark opens the catalog, which may not be there yet
    analysis = _Analysis(workspace, seen, wrong, spark)
    try:
        if any(node.type == "model" for node in workspace.project):
            spark.session()
        for node in workspace.project:
            analysis.add(node)
    except SqbError as error:  # there is no Spark
        return analysis.count, [*analysis.errors, *flatten(error)]
    finally:
        spark.stop()
    return analysis.count, analysis.errors


class _Analysis:
    def __init__(self, workspace: Workspace, seen: LakeState, wrong: Collection[str], spark: OnDemandSpark) -> None:
        self.workspace, self.seen, self.wrong, self.spark = workspace, seen, wrong, spark
        self.project = workspace.project
        self.live = build_live_names(self.project, workspace.connection.catalog.name, seen.externals, seen.files)
        # The queries of empty tables that stand for nodes; None where nothing is known of their columns.
        self.empty: dict[str, str | None] = {}
        self.count = 0
        self.errors: list[SqbError] = []

    def add(self, node: Node) -> None:
        """Analyse a model, after all that it reads."""
        if node.type == "seed":
            self.empty[node.name] = format_rows(
                [(n, parse_type(t) or UNKNOWN) for n, t in node.settings["columns"]], []
            )
        elif self._can_be_analysed(node):
            result = self._analyse(node)
            self.empty[node.name] = format_rows(result, []) if result is not None else None
        else:
            self.empty[node.name] = self._describe_table(node)

    def _can_be_analysed(self, node: Node) -> bool:
        """Whether Spark can say something of a query by itself: hooks before it may make what it reads."""
        has_hooks = any(hook.when == "pre" for hook in node.hooks)
        if node.python or node.file in self.wrong or has_hooks or node.unread == BROKEN:
            return False
        return all(self.empty.get(name) is not None for name in node.reads if name in self.project.nodes)

    def _analyse(self, node: Node) -> list[tuple[str, Type]] | None:
        from sqb.spark.data import frames  # pyspark is only loaded when something is asked of it

        rendered = render_query(strip_arguments(node), self._name_relation, self.live)
        self.count += 1
        try:
            columns: list[tuple[str, Any]] = list(frames.list_result_columns(self.spark.session(), rendered.sql))
        except Exception as error:  # whatever Spark says of it
            self.errors.append(convert_spark_error(error, node, rendered, self.workspace.root))
            return None
        if node.kind == "custom":
            return None
        return [*columns, *((name, parse_type(kind) or UNKNOWN) for name, kind in list_added_columns(node.kind))]

    def _name_relation(self, name: str) -> str:
        empty = self.empty.get(name)
        return f"({empty})" if empty is not None else self.live(name)

    def _describe_table(self, node: Node) -> str | None:
        """The table of a node as it is now, where there is one."""
        columns = read_table_columns(node.relation, self.seen.observed.relations.get)
        if columns is None:
            return None
        return format_rows([(n, parse_type(t) or UNKNOWN) for n, t in columns.columns if n is not None], [])
