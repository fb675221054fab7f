"""Versions of what dbt nodes read, seen through views and ephemeral models; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqb.dbt.model import DbtNode, DbtObserved, DbtProject, DbtStored, DbtVersion
from sqb.identity import digest


class Versions:
    """The current versions at one moment."""

    def __init__(self, project: DbtProject, observed: DbtObserved) -> None:
        self._project, self._observed = project, observed
        self._cache: dict[str, DbtVersion | None] = {}

    def list_inputs(self, node: DbtNode) -> dict[str, DbtVersion]:
        """The versions of what a node reads, by unique id, without those that are unknown."""
        if node.resource_type == "unit_test":
            # It looks at what a model does, and not at its rows.
            models = (self._project.nodes[name] for name in node.depends_on if name in self._project.nodes)
            return {m.unique_id: DbtVersion("identity", m.identity) for m in models}
        versions = {name: self.get_version(name) for name in node.depends_on}
        return {name: version for name, version in versions.items() if version is not None}

    def list_changed_inputs(self, node: DbtNode, recorded: Mapping[str, list[Any]]) -> list[str]:
        """The names of what a node reads that are not as they were when it ran."""
        now = self.list_inputs(node)
        changed = [name for name, version in now.items() if not version.is_same(recorded.get(name))]
        missing = [name for name in node.depends_on if name in recorded and name not in now]
        return [*changed, *missing]

    def get_version(self, name: str) -> DbtVersion | None:
        """The version of the rows of a node or source; None when it is unknown."""
        if name not in self._cache:
            self._cache[name] = self._compute_version(name)
        return self._cache[name]

    def _compute_version(self, name: str) -> DbtVersion | None:
        node, state = self._project.nodes.get(name), self._observed.states.get(name)
        if node is None:
            return state.version if state is not None else None
        stored = self._observed.stored.get(name)
        if node.is_ephemeral or is_view(node, self._observed):
            # The code of an ephemeral model is part of its readers; a view has the code of the run that made it.
            run_id = "" if stored is None or node.is_ephemeral else stored.run_id
            return DbtVersion("beneath", digest("beneath", run_id, *self._list_input_versions(node)))
        if state is not None and state.exists:
            return state.version
        # Outside of the catalog, only the run that built it identifies the version.
        return DbtVersion("run", stored.run_id) if stored is not None and not stored.in_catalog else None

    def _list_input_versions(self, node: DbtNode) -> list[str]:
        versions = ((name, self.get_version(name)) for name in sorted(node.depends_on))
        return [
            f"{name} {version.content or version.value if version is not None else '?'}" for name, version in versions
        ]


def is_view(node: DbtNode, observed: DbtObserved) -> bool:
    """Whether the rows of a node are those of what it reads."""
    state = observed.states.get(node.unique_id)
    return state.is_view if state is not None and state.exists else node.materialized == "view"


def compute_run_versions(
    project: DbtProject, before: DbtObserved, after: DbtObserved, ran: Collection[str], run_id: str
) -> Versions:
    """The versions that nodes of a run have read: what ran before them as the run left it, all else as it was before.

    What moved while dbt ran may have come too late for a node: the next plan then finds it newer than what is recorded.
    """
    names = (*before.states, *after.states)
    states = {
        name: state for name in names if (state := (after if name in ran else before).states.get(name)) is not None
    }
    stored = {name: _build_stored(project.nodes[name], after, run_id) for name in ran if name in project.nodes}
    return Versions(project, DbtObserved({**before.stored, **stored}, states))


def _build_stored(node: DbtNode, after: DbtObserved, run_id: str) -> DbtStored:
    state = after.states.get(node.unique_id)
    return DbtStored(node.unique_id, node.identity, in_catalog=state is not None and state.exists, run_id=run_id)
