"""Before anything runs: the checks of every model held against the columns that its result will have.

Spark is asked what each query gives, without running it. A table that this build has yet to make is stood in for by an
empty one with the columns that its own query gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from sqb.build.checks.analyse import iter_audit_errors, iter_condition_errors, iter_pattern_errors
from sqb.build.node.render import build_live_names, build_pinned_names, render_query
from sqb.checks.model import Check
from sqb.compile.model import Node, Project
from sqb.errors.base import Errors
from sqb.lake.port import TableState
from sqb.lake.storage.file_sources import Listing
from sqb.names import Relation, quote
from sqb.plan.model import Plan
from sqb.project.models.kinds import list_added_columns
from sqb.types.format import format_sql_type
from sqb.types.model import UNKNOWN, Type
from sqb.types.parse import parse_type
from sqb.workspace import Workspace

States = Callable[[Relation], TableState | None]
Columns = Mapping[str, Type]


def validate_checks(
    plan: Plan,
    workspace: Workspace,
    externals: Mapping[str, Relation],
    states: States,
    session: Any,
    files: Mapping[str, Listing] = {},
) -> None:
    """Raise every error of checks that do not fit what they check, or that Spark cannot read."""
    from sqb.build.checks.run import list_checks
    from sqb.checks.validate_columns import find_misfits

    project = workspace.project
    runs = {n.name for n in plan.nodes if n.action == "run"}
    ahead = _FutureColumns(project, workspace.connection.catalog.name, externals, states, session, runs, files)
    errors = Errors()
    fitting: list[Check] = []
    for planned in plan.nodes:
        node = project.nodes.get(planned.name)
        if node is None:
            continue
        columns = ahead.get_columns(node.name) if planned.name in runs and node.checks.checks else None
        if columns is None:
            continue
        others = ahead.list_compared_columns(node)
        problems = [(check, find_misfits([check], columns, others)) for check in list_checks(node)]
        checks = [check for check, wrong in problems if not wrong]
        whole = _format_empty_relation(columns)
        refused = chain(
            *(wrong for _, wrong in problems),
            iter_condition_errors(session, checks, whole),
            iter_audit_errors(session, checks, whole, ahead.build_name_resolver(node), workspace.root),
        )
        for error in refused:
            errors.add(error)
        fitting += checks
    for error in iter_pattern_errors(session, fitting):
        errors.add(error)
    errors.raise_any()


class _FutureColumns:
    """What relations will look like when the build has run."""

    def __init__(
        self,
        project: Project,
        catalog: str,
        externals: Mapping[str, Relation],
        states: States,
        session: Any,
        runs: set[str],
        files: Mapping[str, Listing],
    ) -> None:
        self.project, self.session, self.runs, self.externals = project, session, runs, externals
        self.live = build_live_names(project, catalog, externals, files)
        self.pinned = build_pinned_names(project, catalog, externals, states, files)
        self._columns: dict[str, Columns | None] = {}

    def get_columns(self, name: str) -> Columns | None:
        """The columns of a relation with their Spark types; None when Spark refuses its query."""
        if name not in self._columns:
            self._columns[name] = self._analyse_columns(name)
        return self._columns[name]

    def list_compared_columns(self, node: Node) -> dict[str, Columns]:
        """The columns of the relations that a node's checks compare it with, by the names that they are called."""
        called = node.checks.relations
        known_columns = ((written, self.get_columns(name)) for written, name in called.items())
        return {written: columns for written, columns in known_columns if columns is not None}

    def build_name_resolver(self, node: Node) -> Callable[[str], str]:
        """What stands for the relations that a node's checks name."""
        called = node.checks.relations
        return lambda written: self._format_relation(called[written])

    def _analyse_columns(self, name: str) -> Columns | None:
        from sqb.spark.data import frames

        node = self.project.nodes.get(name)
        if self._is_loaded_later(name) or (node is not None and node.python and name in self.runs):
            return None
        if node is None or name not in self.runs:
            return frames.predict_columns(self.session, f"SELECT * FROM {self.pinned(name)}")
        if node.type == "seed":
            return {column: parse_type(text) or UNKNOWN for column, text in node.settings["columns"]}
        if node.kind == "custom":
            # What its materialisation makes of the query is known when it has run.
            return None
        # What Spark refuses here, the build of the model reports with its place.
        columns = frames.predict_columns(self.session, render_query(node, self._format_relation, self.live).sql)
        added = {name: parse_type(kind) or UNKNOWN for name, kind in list_added_columns(node.kind)}
        return {**columns, **added} if columns is not None else None

    def _is_loaded_later(self, name: str) -> bool:
        """Whether a loader makes it only now."""
        return name in self.project.loaders and name not in self.externals

    def _format_relation(self, name: str) -> str:
        if name not in self.runs:
            return self.live(name) if self._is_loaded_later(name) else self.pinned(name)
        columns = self.get_columns(name)
        return self.live(name) if columns is None else _format_empty_relation(columns)


def _format_empty_relation(columns: Columns) -> str:
    """A relation without rows that has these columns."""
    listed = ", ".join(f"CAST(NULL AS {format_sql_type(kind)}) AS {quote(column)}" for column, kind in columns.items())
    return f"(SELECT {listed} WHERE false)"
