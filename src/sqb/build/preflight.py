"""Before anything runs: the checks of every model held against the columns that its result will have.

Spark is asked what each query gives, without running it. A table that this build has yet to make is stood in for by an
empty one with the columns that its own query gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from sqb.build.kinds.scd2 import OWN_COLUMNS
from sqb.build.render import live_names, pinned_names, render
from sqb.checks.values import Check
from sqb.compiled import Node, Project
from sqb.errors import Errors
from sqb.lake.files import Listing
from sqb.lake.port import TableState
from sqb.names import Relation, quote
from sqb.plan.values import Plan
from sqb.workspace import Workspace

States = Callable[[Relation], TableState | None]
Columns = Mapping[str, str]


def refuse_wrong_checks(
    plan: Plan,
    workspace: Workspace,
    externals: Mapping[str, Relation],
    states: States,
    session: Any,
    files: Mapping[str, Listing] = {},
) -> None:
    """Raise every error of checks that do not fit what they check, or that Spark cannot read."""
    from sqb.build.checking import checks_of
    from sqb.build.checks.refusals import refused_audits, refused_conditions, refused_patterns
    from sqb.checks.fitting import misfits

    project = workspace.project
    runs = {n.name for n in plan.nodes if n.action == "run"}
    ahead = _Ahead(project, workspace.connection.catalog.name, externals, states, session, runs, files)
    errors = Errors()
    fitting: list[Check] = []
    for planned in plan.nodes:
        node = project.nodes.get(planned.name)
        if node is None:
            continue
        columns = ahead.columns(node.name) if planned.name in runs and node.checks else None
        if columns is None:
            continue
        others = ahead.others(node)
        problems = [(check, misfits([check], columns, others)) for check in checks_of(node)]
        checks = [check for check, wrong in problems if not wrong]
        whole = _empty(columns)
        refused = chain(
            *(wrong for _, wrong in problems),
            refused_conditions(session, checks, whole),
            refused_audits(session, checks, whole, ahead.named(node), workspace.root),
        )
        for error in refused:
            errors.add(error)
        fitting += checks
    for error in refused_patterns(session, fitting):
        errors.add(error)
    errors.raise_any()


class _Ahead:
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
        self.live = live_names(project, catalog, externals, files)
        self.pinned = pinned_names(project, catalog, externals, states, files)
        self.found: dict[str, Columns | None] = {}

    def columns(self, name: str) -> Columns | None:
        """The columns of a relation with their Spark types; None when Spark refuses its query."""
        if name not in self.found:
            self.found[name] = self._analysed(name)
        return self.found[name]

    def others(self, node: Node) -> dict[str, Columns]:
        """The columns of the relations that a node's checks compare it with, by the names that they are called."""
        called: Mapping[str, str] = node.checks[1]
        found = ((written, self.columns(name)) for written, name in called.items())
        return {written: columns for written, columns in found if columns is not None}

    def named(self, node: Node) -> Callable[[str], str]:
        """What stands for the relations that a node's checks name."""
        called: Mapping[str, str] = node.checks[1]
        return lambda written: self._text(called[written])

    def _analysed(self, name: str) -> Columns | None:
        from sqb.spark import frames

        node = self.project.nodes.get(name)
        if self._is_to_come(name) or (node is not None and node.python and name in self.runs):
            return None
        if node is None or name not in self.runs:
            return frames.columns_ahead(self.session, f"SELECT * FROM {self.pinned(name)}")
        if node.type == "seed":
            return dict(node.settings["columns"])
        if node.kind == "custom":
            # What its materialisation makes of the query is known when it has run.
            return None
        # What Spark refuses here, the model's own turn reports with its place.
        found = frames.columns_ahead(self.session, render(node, self._text, self.live).sql)
        own = {c.name: str(c.type).upper() for c in OWN_COLUMNS} if node.kind == "scd2" else {}
        return {**found, **own} if found is not None else None

    def _is_to_come(self, name: str) -> bool:
        """Whether a loader makes it only now."""
        return name in self.project.loaders and name not in self.externals

    def _text(self, name: str) -> str:
        if name not in self.runs:
            return self.live(name) if self._is_to_come(name) else self.pinned(name)
        columns = self.columns(name)
        return self.live(name) if columns is None else _empty(columns)


def _empty(columns: Columns) -> str:
    """A relation without rows that has these columns."""
    listed = ", ".join(f"CAST(NULL AS {kind}) AS {quote(column)}" for column, kind in columns.items())
    return f"(SELECT {listed} WHERE false)"
