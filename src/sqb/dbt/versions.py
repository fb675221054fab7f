"""Versions of what dbt nodes read, seen through views and ephemeral models; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqb.dbt.values import DbtNode, DbtObserved, DbtProject, DbtStored, DbtVersion
from sqb.identity import digest


class Versions:
    """The versions that stand at one moment."""

    def __init__(self, project: DbtProject, observed: DbtObserved) -> None:
        self._project, self._observed = project, observed
        self._known: dict[str, DbtVersion | None] = {}

    def read_by(self, node: DbtNode) -> dict[str, DbtVersion]:
        """The versions of what a node reads, by unique id; what nobody can tell is not among them."""
        if node.resource_type == "unit_test":
            # It looks at what a model does, and not at its rows.
            models = (self._project.nodes[name] for name in node.depends_on if name in self._project.nodes)
            return {m.unique_id: DbtVersion("identity", m.identity) for m in models}
        found = {name: self.of(name) for name in node.depends_on}
        return {name: version for name, version in found.items() if version is not None}

    def changed_for(self, node: DbtNode, recorded: Mapping[str, list[Any]]) -> list[str]:
        """The names of what a node reads that are not as they were when it ran."""
        now = self.read_by(node)
        changed = [name for name, version in now.items() if not version.is_same(recorded.get(name))]
        gone = [name for name in node.depends_on if name in recorded and name not in now]
        return [*changed, *gone]

    def of(self, name: str) -> DbtVersion | None:
        """The version of the rows of a node or source; None when nobody can tell."""
        if name not in self._known:
            self._known[name] = self._version(name)
        return self._known[name]

    def _version(self, name: str) -> DbtVersion | None:
        node, seen = self._project.nodes.get(name), self._observed.seen.get(name)
        if node is None:
            return seen.version if seen is not None else None
        stored = self._observed.stored.get(name)
        if node.is_ephemeral or is_view(node, self._observed):
            # The code of an ephemeral model is part of its readers; a view has the code of the run that made it.
            made = "" if stored is None or node.is_ephemeral else stored.run_id
            return DbtVersion("beneath", digest("beneath", made, *self._beneath(node)))
        if seen is not None and seen.exists:
            return seen.version
        # Where nobody can look, the run that built it is all that tells one version from another.
        return DbtVersion("run", stored.run_id) if stored is not None and not stored.in_catalog else None

    def _beneath(self, node: DbtNode) -> list[str]:
        found = ((name, self.of(name)) for name in sorted(node.depends_on))
        return [f"{name} {version.content or version.value if version is not None else '?'}" for name, version in found]


def is_view(node: DbtNode, observed: DbtObserved) -> bool:
    """Whether the rows of a node are those of what it reads."""
    seen = observed.seen.get(node.unique_id)
    return seen.is_view if seen is not None and seen.exists else node.materialized == "view"


def versions_of_run(
    project: DbtProject, before: DbtObserved, after: DbtObserved, ran: Collection[str], run_id: str
) -> Versions:
    """The versions that nodes of a run have read: what ran before them as the run left it, all else as it stood before.

    What moved while dbt ran may have come too late for a node: the next plan then finds it newer than what is recorded.
    """
    names = (*before.seen, *after.seen)
    seen = {name: found for name in names if (found := (after if name in ran else before).seen.get(name)) is not None}
    made = {name: _made(project.nodes[name], after, run_id) for name in ran if name in project.nodes}
    return Versions(project, DbtObserved({**before.stored, **made}, seen))


def _made(node: DbtNode, after: DbtObserved, run_id: str) -> DbtStored:
    seen = after.seen.get(node.unique_id)
    return DbtStored(node.unique_id, node.identity, in_catalog=seen is not None and seen.exists, run_id=run_id)
