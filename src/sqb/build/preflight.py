"""Before anything runs: the checks of every model held against the columns that its result will have.

Spark is asked what each query gives, without running it. A table that this build has yet to make is stood in for by an
empty one with the columns that its own query gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqb.build.kinds.scd2 import OWN_COLUMNS
from sqb.build.render import live_names, pinned_names, render
from sqb.compiled import Node, Project
from sqb.errors import Errors
from sqb.lake.files import Listing
from sqb.lake.port import TableState
from sqb.names import Relation, quote
from sqb.plan.values import Plan

States = Callable[[Relation], TableState | None]


def refuse_wrong_checks(
    plan: Plan,
    project: Project,
    catalog: str,
    externals: Mapping[str, Relation],
    states: States,
    session: Any,
    files: Mapping[str, Listing] = {},
) -> None:
    """Raise every error of checks that do not fit the columns of what they check."""
    from sqb.build.checking import checks_of
    from sqb.checks.fitting import misfits

    runs = {n.name for n in plan.nodes if n.action == "run"}
    ahead = _Ahead(project, catalog, externals, states, session, runs, files)
    errors = Errors()
    for planned in plan.nodes:
        node = project.nodes[planned.name]
        if planned.name in runs and node.checks:
            columns = ahead.columns(node)
            if columns is not None:
                for error in misfits(checks_of(node), columns):
                    errors.add(error)
    errors.raise_any()


class _Ahead:
    """What the results of models will look like."""

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
        self.project, self.session, self.runs = project, session, runs
        self.live = live_names(project, catalog, externals, files)
        self.pinned = pinned_names(project, catalog, externals, states, files)
        self.found: dict[str, dict[str, str] | None] = {}

    def columns(self, node: Node) -> dict[str, str] | None:
        """The columns of a node's relation with their Spark types; None when Spark refuses its query."""
        if node.name not in self.found:
            self.found[node.name] = self._analysed(node)
        return self.found[node.name]

    def _analysed(self, node: Node) -> dict[str, str] | None:
        from sqb.spark import frames

        if node.type == "seed":
            return dict(node.settings["columns"])
        frame = frames.analysed(self.session, render(node, self._text, self.live).sql)
        if frame is None:
            # The model's own turn says so, with the place.
            return None
        found = {name: str(kind) for name, kind in frame.dtypes}
        return {**found, **{c.name: str(c.type) for c in OWN_COLUMNS}} if node.kind == "scd2" else found

    def _text(self, name: str) -> str:
        node = self.project.nodes.get(name)
        if node is None or name not in self.runs:
            return self.pinned(name)
        columns = self.columns(node)
        if columns is None:
            return self.live(name)
        listed = ", ".join(f"CAST(NULL AS {kind}) AS {quote(column)}" for column, kind in columns.items())
        return f"(SELECT {listed} WHERE false)"
